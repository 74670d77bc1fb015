// Owns the contract of FlashInfer's paged attention: an independent kernel over the engine's pages, which benchmarks
// and tests set beside the engine's own. Knows nothing of FlashInfer's headers, so that who calls it compiles fast.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cuda/attention/attention_plan.h"
#include "cuda/runtime/kernels.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Its kernel for one query a sequence (BatchDecodeWithPagedKVCache: a warp's lanes multiply, no tensor cores), and the
/// one for chunks of prompts (BatchPrefillWithPagedKVCache, FA2's: tensor cores), which it takes for decoding, too,
/// with its option to use tensor cores.
enum class FlashinferKernel : std::uint8_t { decode, prefill };

/// Whether there is one: Hopper, heads of 128, bf16 or e4m3 pages, up to 64 query heads; to decode 1, 2, 3, 4 or 8
/// query heads a kv head.
bool has_flashinfer(FlashinferKernel kernel, const AttentionShape& shape, quant::KvFormat format,
                    const DeviceFacts& device);

/// Rows of sequences, end to end: those of sequence i are [first_row_S[i], first_row_S[i + 1]), its last ones up to
/// position num_positions_S[i] − 1; its pages page_ids[first_page_S[i]] …, whole sequences after one another.
struct FlashinferRows {
  std::span<const std::int32_t> first_row_S, num_positions_S, page_ids;
  std::int64_t page_size = 0;
  /// The first pages, the same of every sequence, which prefill reads once for all (its cascade). Each must have more.
  /// decode, which has no cascade, reads them for each.
  std::int64_t num_shared_pages = 0;
};

/// One of FlashInfer's kernels: queries in bf16, fp32 sums, partial results and contexts bf16; softmax weights bf16
/// (prefill) or fp32 (decode). Planned by FlashInfer's own scheduler.
class Flashinfer {
 public:
  virtual ~Flashinfer() = default;
  /// Plans rows, at most max_rows, for decode one a sequence; the plan, counted from 0, lies on the device when it
  /// returns.
  virtual std::size_t plan(const FlashinferRows& rows, const Stream& stream) = 0;
  /// q and context: bf16 [rows, H, E]. One after another: plans share what is between their kernels.
  virtual void run(std::size_t plan_idx, const std::uint16_t* q, const KvPages& pages, std::uint16_t* context,
                   const Stream& stream) const = 0;
};

/// Of a shape that has_flashinfer.
std::unique_ptr<Flashinfer> make_flashinfer(FlashinferKernel kernel, const AttentionShape& shape,
                                            quant::KvFormat format, std::int64_t max_rows);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
