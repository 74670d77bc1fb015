// Owns the state of one sample and of its group (one request), as plain data. The scheduler changes it, the plan reads
// it.
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

/// Returns the placeholder in a plan for a token that the previous tick, still in flight, samples as its output_idx-th.
/// Negative, unlike any token.
constexpr types::TokenId sampled_before(std::int32_t output_idx) { return -1 - output_idx; }

/// Copies the first num_slots slots, in every layer.
struct PageCopy {
  PageId from = 0;
  PageId to = 0;
  std::int64_t num_slots = 0;
};

/// Whether the KV of a group's prompt can be shared.
enum class PrefixState : std::uint8_t {
  absent,   ///< no sample has it; the next one to start computes it
  filling,  ///< the leader is computing it; the others wait
  ready,    ///< the group holds its pages
};

struct Group;

/// One sample. Its tokens are the prompt and the sampled ones; its KV covers the first num_cached of them.
struct Sequence {
  Group* group = nullptr;
  std::int32_t sample_idx = 0;
  types::Completion completion;
  std::string text_tail;        ///< end of the sampled text, if the request has stop strings (stop_strings.h)
  std::vector<PageId> pages;    ///< of positions 0, 1, …, in order
  std::int64_t num_cached = 0;  ///< positions whose KV is in the pages, or will be before the next tick
  std::int64_t num_rows = 0;    ///< positions that this tick computes, from num_cached on
  PageCopy copy;                ///< done before this tick's forward pass; num_slots 0: none
  bool leads = false;           ///< computes the group's prefix
  bool finished = false;
  // Counts tokens that a tick in flight samples, before they are known.
  std::int32_t num_in_flight = 0;
  std::int32_t in_flight_output = 0;  ///< index of the newest one among its tick's samples

  std::int64_t num_prompt_tokens() const;
  std::int64_t num_sampled() const { return static_cast<std::int64_t>(completion.tokens.size()) + num_in_flight; }
  std::int64_t num_tokens() const { return num_prompt_tokens() + num_sampled(); }
  /// Whether no token is left to sample, although the last ones may be in flight.
  bool all_sampled() const;
  /// Tokens without KV: 1 while decoding, more after a start or preemption.
  std::int64_t num_pending() const { return num_tokens() - num_cached; }
  /// Whether this tick computes the newest token, whose logits give the next one.
  bool samples_next() const { return num_rows > 0 && num_rows == num_pending(); }
  /// sampled_before(in_flight_output) for a token in flight, which only the newest can be.
  types::TokenId token(std::int64_t position) const;
};

/// The samples of one request. Its address is stable, because its sequences point to it.
struct Group {
  RequestId id = 0;
  Request request;
  ops::SampleParams sample_params;
  base::RandomField field{0, base::RandomPurpose::sampling};  ///< seeded by request.key.seed
  std::vector<Sequence> sequences;
  /// Prompt tokens whose KV is shared: all but the last, because each sample computes that one for its logits. 0: no
  /// sharing.
  std::int64_t num_prefix_tokens = 0;
  PrefixState prefix = PrefixState::absent;
  std::vector<PageId> prefix_pages;  ///< held while `ready`; the last one up to the prefix's end
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

/// Returns the uniform number in [0, 1) for a sequence's next token. It depends on seed, step, prompt, sample and
/// position alone, on every backend.
double sampling_uniform(const Sequence& sequence);

}  // namespace qrl::decoder
