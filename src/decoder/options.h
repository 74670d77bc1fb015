// Owns the options of a decoder and the totals that it reports.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/view.h"
#include "quant/kv_format.h"
#include "types/prompt.h"

namespace qrl::decoder {

struct DecoderOptions {
  base::Device device = base::Device::cpu;  ///< cuda: decoder/device/device_backend.h
  int device_number = 0;                    ///< among the visible GPUs, round-robin (cuda/engine/decode_engine.h)
  std::int64_t max_num_seqs = 256;
  std::int64_t max_num_batched_tokens = 2048;  ///< rows per tick; longer prompts are prefilled in chunks
  std::int64_t page_size = 16;
  std::int64_t kv_pages = 0;  ///< pages in the pool; enough for one longest sequence
  /// GPU only. 0: allocate kv_pages or throw. Otherwise: as many pages as fit into this share of the GPU's memory,
  /// other uses included.
  double gpu_memory_utilization = 0;
  bool enforce_eager = false;      ///< GPU only: launches without CUDA graphs; same samples
  bool row_only_sums = false;      ///< GPU only, see cuda/engine/decode_engine.h; the CPU always sums this way
  std::int64_t max_model_len = 0;  ///< prompt and response tokens of the longest sequence
  quant::KvFormat kv_format = quant::KvFormat::bf16;
  /// Number of vocabulary tokens whose logits are computed at once (for 32 rows), a multiple of 256; the default fits
  /// in a core's cache. Top-k and top-p use whole rows. Changes no sample.
  std::int64_t logit_tile_tokens = 8192;
  bool prefix_sharing = true;         ///< among a group's samples
  std::function<void()> before_tick;  ///< may throw, which abandons all requests; the decoder stays usable
  /// Returns a token's text, valid until the next call, for requests with stop strings.
  std::function<std::string_view(types::TokenId)> bytes_of;
  int num_threads = 0;  ///< per tick; 0: the caller's (base/thread_scope.h). Changes no sample
};

struct DecoderStats {
  std::int64_t ticks = 0;
  std::int64_t prefill_tokens = 0;      ///< prompt rows computed, and rows recomputed after a preemption
  std::int64_t decode_tokens = 0;       ///< rows of newly sampled tokens, except after an end token
  std::int64_t decode_only_tokens = 0;  ///< decode_tokens of ticks without prefill, timed by decode_s
  std::int64_t samples_finished = 0;
  std::int64_t preemptions = 0;
  std::int64_t shared_prompt_tokens = 0;  ///< rows saved by shared prompts
  std::int64_t peak_kv_pages = 0;
  double prefill_s = 0;  ///< ticks with any prefill row
  double decode_s = 0;   ///< ticks with decode rows only
  std::int64_t decode_ticks = 0;
  /// experts that decode_ticks read, over layers: each of a row's route, once a team
  std::int64_t decode_experts = 0;
  std::int64_t decode_graph_ticks = 0;  ///< launched as CUDA graphs
  double decode_waited_s = 0;           ///< part of decode_s spent waiting for a device
};

}  // namespace qrl::decoder
