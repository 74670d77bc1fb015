// Owns what the decoder remembers of one sample and of the group (one request) it belongs to. Holds data
// only: the scheduler moves it, the plan reads it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "decoder/page_pool.h"
#include "decoder/request.h"
#include "ops/sample.h"
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

struct Group;

/// One sample: its tokens are the prompt and what has been sampled, and its KV covers the first num_cached of them.
struct Sequence {
  Group* group = nullptr;
  std::int32_t sample_idx = 0;
  types::Completion completion;  ///< what has been sampled
  std::string text_tail;         ///< of the sampled text, where the request has stop strings (stop_strings.h)
  std::vector<PageId> pages;     ///< of positions 0, 1, … in order
  std::int64_t num_cached = 0;   ///< positions whose KV is in the pages, or will be by the next tick
  std::int64_t num_rows = 0;     ///< positions that this tick computes, from num_cached on
  PageCopy copy;                 ///< to be done before this tick's forward; num_slots 0: none
  bool leads = false;            ///< computes the group's prefix
  bool finished = false;
  // Tokens that a tick under way samples are counted before anybody knows them.
  std::int32_t num_in_flight = 0;
  std::int32_t in_flight_output = 0;  ///< of the newest of them: which of its tick's samples

  std::int64_t num_prompt_tokens() const;
  std::int64_t num_sampled() const { return static_cast<std::int64_t>(completion.tokens.size()) + num_in_flight; }
  std::int64_t num_tokens() const { return num_prompt_tokens() + num_sampled(); }
  /// Nothing is left to be sampled, though maybe to be seen.
  bool all_sampled() const;
  /// Tokens whose KV is still to be computed: 1 while decoding, more after the start or a preemption.
  std::int64_t num_pending() const { return num_tokens() - num_cached; }
  /// Whether this tick reaches the newest token, whose logits the next one is sampled from.
  bool samples_next() const { return num_rows > 0 && num_rows == num_pending(); }
  /// Of a token to come, which only the newest can be: sampled_before.
  types::TokenId token(std::int64_t position) const;
};

/// The samples of one request. It stays where it is, as its sequences point at it.
struct Group {
  RequestId id = 0;
  Request request;
  ops::SampleParams sample_params;                            ///< of request.params
  base::RandomField field{0, base::RandomPurpose::sampling};  ///< of request.key.seed
  std::vector<Sequence> sequences;
  /// Prompt tokens whose KV is shared: all but the last, since each sample needs that one's logits and computes it
  /// itself. 0: nothing is shared.
  std::int64_t num_prefix_tokens = 0;
  PrefixState prefix = PrefixState::absent;
  std::vector<PageId> prefix_pages;  ///< held by the group while `ready`; of the last one only the prefix's slots
  std::int64_t num_running = 0;
  std::int64_t num_unfinished = 0;
};

inline std::int64_t Sequence::num_prompt_tokens() const {
  return static_cast<std::int64_t>(group->request.prompt_tokens.size());
}
inline bool Sequence::all_sampled() const { return num_sampled() >= group->request.params.max_new_tokens; }
inline types::TokenId Sequence::token(std::int64_t position) const {
  const std::int64_t sampled_idx = position - num_prompt_tokens();
  if (sampled_idx < 0) return group->request.prompt_tokens[static_cast<std::size_t>(position)];
  const auto idx = static_cast<std::size_t>(sampled_idx);
  return idx < completion.tokens.size() ? completion.tokens[idx] : sampled_before(in_flight_output);
}

/// The uniform number in [0, 1) that a sequence's next token is sampled with: of seed, step, prompt, sample and
/// position, the same on every backend.
double sampling_uniform(const Sequence& sequence);

}  // namespace qrl::decoder
