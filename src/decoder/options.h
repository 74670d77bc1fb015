// Owns options and counters.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/view.h"
#include "quant/kv_format.h"
#include "types/kept_tokens.h"

namespace qrl::decoder {

struct DecoderOptions {
  base::Device device = base::Device::cpu;  ///< cuda uses decoder/device/device_backend.h
  int device_number = 0;                    ///< index among the visible GPUs, modulo their number
  std::int64_t max_num_seqs = 256;
  std::int64_t max_num_batched_tokens = 2048;  ///< rows per tick; longer prompts are prefilled in chunks
  std::int64_t page_size = 16;
  std::int64_t kv_pages = 0;  ///< pages in the pool; must hold one sequence of max_model_len
  /// GPU only. If 0, allocates kv_pages or throws. Otherwise allocates at most kv_pages, and at most this share of the
  /// GPU's memory is then in use.
  double gpu_memory_utilization = 0;
  bool enforce_eager = false;  ///< GPU only: launches without CUDA graphs; samples are the same
  bool row_only_sums = false;  ///< GPU only: sums each row alone (cuda/engine/decode_engine.h), as the CPU always does
  std::int64_t max_model_len = 0;  ///< prompt and response tokens of the longest sequence
  quant::KvFormat kv_format = quant::KvFormat::bf16;
  /// Number of vocabulary tokens whose logits are computed at once, for up to 64 rows. Must be a multiple of 256. The
  /// default fits in a core's cache. Top-k and top-p use whole rows. Does not change samples.
  std::int64_t logit_tile_tokens = 8192;
  bool prefix_sharing = true;  ///< if set, a request's samples share the prompt's KV
  /// Called before each tick. An exception abandons all requests; the decoder stays usable.
  std::function<void()> before_tick;
  /// Returns a token's text, valid until the next call, for requests with stop strings.
  std::function<std::string_view(types::TokenId)> bytes_of;
  int num_threads = 0;  ///< threads per tick; 0: the caller's (base/threads.h); does not change samples
};

struct DecoderStats {
  std::int64_t ticks = 0;
  std::int64_t prefill_tokens = 0;      ///< prompt rows computed, and rows recomputed after a preemption
  std::int64_t decode_tokens = 0;       ///< rows of newly sampled tokens, without rows after a sequence's end
  std::int64_t decode_only_tokens = 0;  ///< decode_tokens of ticks without prefill; decode_s is their time
  std::int64_t samples_finished = 0;
  std::int64_t preemptions = 0;
  std::int64_t shared_prompt_tokens = 0;  ///< rows saved by shared prompts
  std::int64_t peak_kv_pages = 0;
  double prefill_s = 0;  ///< time of ticks with any prefill row
  double decode_s = 0;   ///< time of ticks with decode rows only
  std::int64_t decode_ticks = 0;
  /// experts that decode_ticks read, summed over layers; an expert counts once for all rows of a team
  std::int64_t decode_experts = 0;
  std::int64_t decode_graph_ticks = 0;
  double decode_waited_s = 0;  ///< part of decode_s spent waiting for a device's results
};

}  // namespace qrl::decoder
