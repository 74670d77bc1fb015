#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "types/prompt.h"

namespace qrl::types {

/// Says how a sample goes on after a turn, or how it begins.
struct TurnReply {
  std::size_t sample = 0;       ///< index among all samples of the call, in the order of requests
  bool ends = false;            ///< if set, the sample is complete as it is
  std::vector<TokenId> prompt;  ///< before the first turn: the sample's own prompt; empty: its request's
  std::vector<TokenId> tokens;  ///< appended to the sample without being sampled; empty before the first turn
  std::int64_t max_tokens = 0;  ///< limit on the sample's tokens at the end of the next turn
};

/// Answers the turns of a call of TextSource::converse. Each sample waits for a reply before its first turn, then after
/// each turn.
class TurnPartner {
 public:
  TurnPartner() = default;
  TurnPartner(const TurnPartner&) = delete;
  TurnPartner& operator=(const TurnPartner&) = delete;
  virtual ~TurnPartner() = default;
  /// Takes a sample whose turn has ended, with all its tokens so far. Does not wait.
  virtual void end_turn(std::size_t sample, const Completion& so_far) = 0;
  /// Returns the replies since the last call. If there are none and `may_wait` is set, waits a short time for one.
  virtual std::vector<TurnReply> take_replies(bool may_wait) = 0;
};

}  // namespace qrl::types
