// Owns options and counters.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/view.h"
#include "config/auto_value.h"
#include "quant/kv_format.h"
#include "types/kept_tokens.h"

namespace qrl::decoder {

/// Holds what the sampler is built with. decoder/keys.h declares the members that a recipe sets; a run chooses the
/// others.
struct DecoderOptions {
  base::Device device = base::Device::cpu;
  int device_number = 0;  ///< index among the visible GPUs, modulo their number
  config::AutoValue<std::int64_t> max_num_seqs = config::AutoValue<std::int64_t>::automatic(256);
  std::int64_t max_num_batched_tokens = 2048;  ///< limit on rows per tick; longer prompts are prefilled in chunks
  std::int64_t page_size = 16;
  std::int64_t kv_pages = 0;  ///< pages in the pool; must hold one sequence of max_model_len
  /// GPU only. If 0, the decoder allocates exactly kv_pages. Otherwise it allocates at most kv_pages, such that all
  /// processes together use at most this share of the GPU's memory.
  double gpu_memory_utilization = 0;
  bool enforce_eager = false;  ///< GPU only: launches without CUDA graphs; samples are the same
  bool row_only_sums = false;  ///< GPU only: if set, a row's results depend on no other row, as always on the CPU
  std::int64_t max_model_len = 0;
  quant::KvFormat kv_format = quant::KvFormat::bf16;
  /// Number of vocabulary tokens whose logits the CPU computes at once, for up to 64 rows. Must be a multiple of 256.
  /// Top-k and top-p use whole rows. Does not change samples.
  std::int64_t logit_tile_tokens = 8192;
  bool prefix_sharing = true;
  /// Slots for sequences' states in DeltaNet layers, two or more with prefix sharing. Waiting sequences keep theirs as
  /// long as no running one needs it. 0: num_state_slots(max_num_seqs).
  std::int64_t state_slots = 0;
  /// Called before each tick. An exception abandons all requests; the decoder stays usable.
  std::function<void()> before_tick;
  /// Returns a token's text, valid until the next call. Required for stop strings.
  std::function<std::string_view(types::TokenId)> bytes_of;
  int num_threads = 0;  ///< threads per tick; 0: base::num_threads(); does not change samples
};

struct DecoderStats {
  std::int64_t ticks = 0;
  std::int64_t prefill_tokens = 0;      ///< prompt rows computed, and rows recomputed after a preemption
  std::int64_t decode_tokens = 0;       ///< rows of newly sampled tokens, without rows after a sequence's end
  std::int64_t decode_only_tokens = 0;  ///< decode_tokens of ticks without prefill; decode_s is their time
  std::int64_t samples_finished = 0;
  std::int64_t preemptions = 0;
  std::int64_t shared_prompt_tokens = 0;
  std::int64_t peak_kv_pages = 0;
  double prefill_s = 0;  ///< time of ticks with any prefill row
  double decode_s = 0;   ///< time of ticks with decode rows only
  std::int64_t decode_ticks = 0;
  /// number of experts that decode_ticks read, summed over layers; a team reads an expert once for all its rows
  std::int64_t decode_experts = 0;
  std::int64_t decode_graph_ticks = 0;
  std::int64_t held_graphs = 0;  ///< GPU: CUDA graphs that exist after the last tick
  std::int64_t graph_bytes = 0;  ///< GPU: their memory
  double decode_waited_s = 0;    ///< part of decode_s spent waiting for a device's results
  /// `converse`: Σ time · sequences in ticks, and Σ time · sequences that max_num_seqs and unfinished samples allow.
  double used_slot_s = 0, allowed_slot_s = 0;
};

}  // namespace qrl::decoder
