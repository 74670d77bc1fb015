#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "decoder/kv/delta_states.h"
#include "decoder/kv/page_pool.h"
#include "decoder/request.h"
#include "ops/sample.h"
#include "types/prompt.h"

namespace qrl::decoder {

/// Returns a negative placeholder for the output_idx-th token that the tick in flight samples.
constexpr types::TokenId pending_token(std::int32_t output_idx) { return -1 - output_idx; }

/// Describes the state of a group's prefix, the prompt KV that its samples share.
enum class PrefixState : std::uint8_t {
  absent,   ///< not computed; the next sample to start computes it
  filling,  ///< the leader is computing it; other samples wait
  ready,    ///< the group holds the prefix's pages
};

struct Group;

/// Holds a sample: its prompt and the tokens behind it, of which the first num_cached have KV.
struct Sequence {
  Group* group = nullptr;
  std::int32_t sample_idx = 0;
  types::Completion completion;
  std::string text_tail;      ///< end of the sampled text, for requests with stop strings
  std::vector<PageId> pages;  ///< in order of positions; the first num_dropped are freed
  std::int64_t num_dropped = 0;
  std::int64_t num_cached = 0;  ///< positions whose KV is in pages when the next tick starts
  std::int64_t num_rows = 0;    ///< number of rows in this tick; the first is at position num_cached
  PageCopy copy;                ///< page copy before this tick's forward pass; num_slots 0: none
  StateSlot state = -1;         ///< of a model with DeltaNet layers; held as long as `pages`; −1: none
  StateSlot starts_from = -1;   ///< slot that is copied to `state` before this tick's forward pass; −1: none
  StateSlot leaves_to = -1;     ///< slot to which `state` is copied after this tick's forward pass; −1: none
  bool has_started = false;     ///< whether it was ever among the scheduler's running sequences
  bool leads = false;           ///< if set, computes the group's prefix
  bool runs = false;            ///< is among the scheduler's running sequences
  bool parked = false;          ///< waits for what follows its turn
  bool has_turn = false;        ///< parked after a turn that take_turns has not returned
  bool finished = false;
  std::int64_t max_tokens = 0;  ///< number of the completion's tokens at which the turn is cut
  // Number of tokens in flight: sampled by started ticks, but not known yet.
  std::int32_t num_in_flight = 0;
  std::int32_t in_flight_output = 0;  ///< index, among its tick's samples, of the newest token in flight

  std::int64_t num_prompt_tokens() const;
  /// Returns the number of tokens behind the prompt, with those in flight and those of an environment.
  std::int64_t num_sampled() const { return static_cast<std::int64_t>(completion.tokens.size()) + num_in_flight; }
  std::int64_t num_tokens() const { return num_prompt_tokens() + num_sampled(); }
  /// Returns whether no token is left to sample in this turn; the last token may be in flight.
  bool all_sampled() const;
  /// Returns the number of tokens without KV: 1 while decoding, more after a start or preemption.
  std::int64_t num_pending() const { return num_tokens() - num_cached; }
  /// Returns whether this tick computes the newest token's row, and so samples the next token.
  bool samples_next() const { return num_rows > 0 && num_rows == num_pending(); }
  /// Returns a token. If it is still in flight, returns pending_token(in_flight_output).
  types::TokenId token(std::int64_t position) const;
};

inline ops::SampleParams sample_params_of(const types::SamplingParams& params) {
  return {params.temperature, params.top_p, params.top_k, params.max_kept};
}

/// Holds one request's samples. They point to the group, so its address must not change.
struct Group {
  RequestId id = 0;
  Request request;
  ops::SampleParams sample_params;
  bool waits_for_ticks = false;  ///< as in Scheduler::submit
  base::RandomField field{0, base::RandomPurpose::sampling};
  std::vector<Sequence> sequences;
  /// Number of prompt tokens with shared KV: all but the last, which each sample computes for its logits; 0 without
  /// sharing.
  std::int64_t num_prefix_tokens = 0;
  PrefixState prefix = PrefixState::absent;
  std::vector<PageId> prefix_pages;  ///< valid while `ready`; of the last page, only slots of the prefix are shared
  std::int64_t num_dropped = 0;      ///< prefix pages, from the first on, that are not held
  StateSlot prefix_state = -1;       ///< held while `filling` and `ready`: the state behind the prefix; −1: none
  std::int64_t num_unstarted = 0;    ///< sequences that have never run and have not ended
  std::int64_t num_running = 0;
  std::int64_t num_unfinished = 0;
};

inline std::int64_t Sequence::num_prompt_tokens() const {
  return static_cast<std::int64_t>(group->request.prompt_tokens.size());
}
inline bool Sequence::all_sampled() const { return num_sampled() >= max_tokens; }
inline types::TokenId Sequence::token(std::int64_t position) const {
  const std::int64_t sampled_idx = position - num_prompt_tokens();
  if (sampled_idx < 0) return group->request.prompt_tokens[static_cast<std::size_t>(position)];
  const auto idx = static_cast<std::size_t>(sampled_idx);
  return idx < completion.tokens.size() ? completion.tokens[idx] : pending_token(in_flight_output);
}

/// Returns the uniform number in [0, 1) for the next token. It depends on seed, step, prompt, sample and position
/// alone, on every backend.
inline double sampling_uniform(const Sequence& sequence) {
  const Group& group = *sequence.group;
  const Request& request = group.request;
  const auto high = static_cast<std::uint32_t>(request.prompt_id >> 32);
  const auto low = static_cast<std::uint32_t>(request.prompt_id);
  const std::int64_t position = request.first_position + sequence.num_sampled();
  return group.field.uniform({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(sequence.sample_idx),
                              low ^ (high * 0x9E3779B9U), request.key.step});
}

}  // namespace qrl::decoder
