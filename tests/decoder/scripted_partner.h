// Owns a partner whose replies to turns are scripted.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/rng.h"
#include "types/turns.h"

namespace qrl::decoder::test {

inline constexpr std::size_t kTurns = 3;
inline constexpr std::int32_t kAllTokens = 40;
inline constexpr std::int64_t kTurnTokens = 7;

inline std::vector<types::TokenId> observation_of(std::size_t sample, std::size_t turn) {
  std::vector<types::TokenId> tokens;
  for (std::size_t i = 0; i < (sample + 2 * turn) % 5; ++i)
    tokens.push_back(static_cast<types::TokenId>(20 + (sample + i) % 30));
  return tokens;
}

/// Replies after kTurns turns that the sample ends. Replies are late: after `delay` calls, in a shuffled order.
class ScriptedPartner final : public types::TurnPartner {
 public:
  ScriptedPartner(std::size_t num_samples, int delay) : delay_(delay), turns_(num_samples) {
    for (std::size_t i = 0; i < num_samples; ++i) waiting_.push_back({i, false, {}, {}, kTurnTokens});
  }
  void end_turn(std::size_t sample, const types::Completion& so_far) override {
    const std::size_t turn = ++turns_[sample];
    const std::vector<types::TokenId> tokens = observation_of(sample, turn);
    const bool ends = turn == kTurns || so_far.tokens.size() + tokens.size() >= kAllTokens;
    const auto limit = static_cast<std::int64_t>(so_far.tokens.size() + tokens.size()) + kTurnTokens;
    waiting_.push_back({sample, ends, {}, ends ? std::vector<types::TokenId>() : tokens, limit});
  }
  std::vector<types::TurnReply> take_replies(bool may_wait) override {
    std::vector<types::TurnReply> replies;
    if (!may_wait && ++calls_ % (delay_ + 1) != 0) return replies;
    const std::size_t most = delay_ == 0 ? waiting_.size() : 2;
    while (!waiting_.empty() && replies.size() < most) {
      const std::size_t at = delay_ == 0 ? 0 : random_.below(waiting_.size());
      replies.push_back(std::move(waiting_[at]));
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return replies;
  }

 private:
  int delay_;
  int calls_ = 0;
  base::RandomStream random_{5, base::RandomPurpose::test, 1};
  std::vector<std::size_t> turns_;
  std::deque<types::TurnReply> waiting_;
};

}  // namespace qrl::decoder::test
