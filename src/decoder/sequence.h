// Owns what the decoder remembers of one sample and of the group (one request) it belongs to. Holds data
// only: the scheduler moves it, the plan reads it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decoder/page_pool.h"
#include "types/prompt.h"

namespace qrl::decoder {

/// Stands in a plan for a token that the tick before, still under way, has as its output_idx-th sample: negative, as no
/// token is.
constexpr types::TokenId sampled_before(std::int32_t output_idx) { return -1 - output_idx; }

/// The first num_slots slots of page `from` are to be copied into page `to`, in every layer.
struct PageCopy {
  PageId from = 0;
  PageId to = 0;
  std::int64_t num_slots = 0;
};

/// Whether the KV of a group's prompt is there to be shared.
enum class PrefixState : std::uint8_t {
  absent,   ///< nobody has it: who starts next computes it
  filling,  ///< one sample, the leader, is computing it; the others wait
  ready,    ///< the group holds its pages
};

/// The samples of one request.
struct Group {
  std::uint64_t prompt_id = 0;
  std::span<const types::TokenId> prompt;
  /// Prompt tokens whose KV is shared: all but the last, since each sample needs that one's logits and computes it
  /// itself. 0: nothing is shared.
  std::int64_t num_prefix_tokens = 0;
  PrefixState prefix = PrefixState::absent;
  std::vector<PageId> prefix_pages;  ///< held by the group while `ready`; of the last one only the prefix's slots
  std::int64_t num_running = 0;
  std::int64_t num_unfinished = 0;
};

/// One sample: its tokens are the prompt and what has been sampled, and its KV covers the first num_cached of them.
struct Sequence {
  Group* group = nullptr;
  std::int32_t sample_idx = 0;
  types::Completion* completion = nullptr;  ///< sampled tokens are written here
  std::vector<PageId> pages;                ///< of positions 0, 1, … in order
  std::int64_t num_cached = 0;              ///< positions whose KV is in the pages, or will be by the next tick
  std::int64_t num_rows = 0;                ///< positions that this tick computes, from num_cached on
  PageCopy copy;                            ///< to be done before this tick's forward; num_slots 0: none
  bool leads = false;                       ///< computes the group's prefix
  bool finished = false;
  std::int32_t max_new_tokens = 0;
  // Tokens that a tick under way samples are counted before anybody knows them.
  std::int32_t num_in_flight = 0;
  std::int32_t in_flight_output = 0;  ///< of the newest of them: which of its tick's samples

  std::int64_t num_prompt_tokens() const { return static_cast<std::int64_t>(group->prompt.size()); }
  std::int64_t num_sampled() const { return static_cast<std::int64_t>(completion->tokens.size()) + num_in_flight; }
  std::int64_t num_tokens() const { return num_prompt_tokens() + num_sampled(); }
  /// Nothing is left to be sampled, though maybe to be seen.
  bool all_sampled() const { return num_sampled() >= max_new_tokens; }
  /// Tokens whose KV is still to be computed: 1 while decoding, more after the start or a preemption.
  std::int64_t num_pending() const { return num_tokens() - num_cached; }
  /// Whether this tick reaches the newest token, whose logits the next one is sampled from.
  bool draws() const { return num_rows > 0 && num_rows == num_pending(); }
  /// Of a token to come, which only the newest can be: sampled_before.
  types::TokenId token(std::int64_t position) const {
    if (position < num_prompt_tokens()) return group->prompt[static_cast<std::size_t>(position)];
    const auto idx = static_cast<std::size_t>(position - num_prompt_tokens());
    return idx < completion->tokens.size() ? completion->tokens[idx] : sampled_before(in_flight_output);
  }
};

}  // namespace qrl::decoder
