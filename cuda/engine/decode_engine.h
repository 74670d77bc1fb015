// Owns the entry to a decoder on an NVIDIA GPU: plain structs in, sampled tokens out. Knows nothing of sequences,
// snapshots or recipes. runtime/no_cuda.cpp stands in without CUDA, so that callers need no #ifdef.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cuda/runtime/kept_back.h"
#include "cuda/runtime/layout.h"
#include "cuda/runtime/trials.h"
#include "model/block.h"
#include "model/config.h"
#include "quant/format.h"
#include "quant/kv_format.h"

namespace qrl::cuda {

class WeightStore;
class SequenceScorer;

/// The targets of this program's kernels, "13.0 sm_80 sm_90a compute_90"; "off" without CUDA.
std::string version();

inline std::int64_t padded(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// Rows from which on GEMMs with matrices of a format have operands dequantized to bf16; 0: never. By measurement on an
/// H100: int4's streamed kernel takes 326 us for a layer of 8B at 128 rows, dequantizing it some 140 besides the bf16
/// GEMM's 165; block128's takes 257 at 128 rows and 565 at 256, dequantizing it some 190.
inline std::int64_t dequantized_rows(quant::Format format) {
  return format == quant::Format::int4 ? 96 : format == quant::Format::fp8_block128 ? 160 : 0;
}
/// Rows of quantized activations that are bf16 at once there, which bounds the memory for them.
inline constexpr std::int64_t kDequantizedRowsAtOnce = 4096;
/// Bytes of device memory that GEMMs of up to num_rows rows with a model's layers keep for those operands: the largest
/// matrix, and for fp8_block128 rows of the widest.
inline std::int64_t dequantized_bytes(quant::Format format, const model::ModelConfig& config, std::int64_t num_rows,
                                      bool row_only_sums) {
  const std::int64_t least = dequantized_rows(format);
  if (least == 0 || padded_rows(num_rows) < least || row_only_sums) return 0;
  std::int64_t largest = 0, widest = 0;
  model::visit_matrices(config, [&](const model::BlockMatrix& matrix, const auto&) {
    largest = std::max(largest, padded(matrix.out(), 64) * padded(matrix.in, 128));
    widest = std::max(widest, padded(matrix.in, 128));
  });
  const bool quantizes_rows = format == quant::Format::fp8_block128;
  return 2 * (largest + (quantizes_rows ? kDequantizedRowsAtOnce * widest : 0));
}

/// Bytes of device memory that the adapters of a matrix take, all of its modules', A and B in bf16.
inline std::int64_t adapter_bytes(const model::BlockMatrix& matrix, std::int64_t rank) {
  const std::int64_t all = static_cast<std::int64_t>(matrix.modules.size()) * rank;
  return 2 * (padded(all, 64) * padded(matrix.in, 128) + padded(matrix.out(), 64) * padded(all, 128));
}
/// And those that ticks of num_rows rows keep for what enters adapters, and for what lies between A and B.
inline std::int64_t adapter_rows_bytes(const model::ModelConfig& config, std::int64_t rank, std::int64_t num_rows) {
  std::int64_t widest = 0, between = 0;
  model::visit_matrices(config, [&](const model::BlockMatrix& matrix, const auto&) {
    widest = std::max(widest, padded(matrix.in, 128));
    between += padded(static_cast<std::int64_t>(matrix.modules.size()) * rank, 128);
  });
  return 2 * num_rows * (widest + between);
}

struct EngineOptions {
  model::ModelConfig model;
  /// Of the devices that CUDA_VISIBLE_DEVICES leaves, counted round-robin: N processes on M devices are shared out.
  int device_number = 0;
  std::int64_t max_rows = 0;       ///< of one tick
  std::int64_t max_sequences = 0;  ///< whose rows they are
  std::int64_t max_positions = 0;  ///< of a sequence
  std::int64_t num_pages = 0;
  /// 0: num_pages or an error. Else as many of them as fit while the device's memory in use, by whomever, is at most
  /// this share of it.
  double memory_utilization = 0;
  std::int64_t page_size = 0;  ///< tokens
  quant::KvFormat kv_format = quant::KvFormat::bf16;
  /// Results of GEMMs stay fp32, as on the CPU: slower, for comparisons with it. Else they are rounded to bf16.
  bool f32_gemms = false;
  /// A row's bits do not depend on the tick's other rows, nor on their number: no library's fp32 sums
  /// (gemm_plan.h's choose_gemm). Slower where those are made for many rows at once.
  bool row_only_sums = false;
  /// Ticks that sample for every row are launched as CUDA graphs, from the second of their kind on. Changes no bit.
  bool graphs = true;
  Trials trials = trials_wanted();
};

/// The first num_slots slots of page `from` go to page `to`, in every layer.
struct SlotCopy {
  std::int32_t from = 0, to = 0, num_slots = 0;
};

/// The token of a tick that stands for the output_idx-th sample of the tick started before, which may be under way.
constexpr std::int32_t sampled_before(std::int32_t output_idx) { return -1 - output_idx; }

/// One tick's rows, end to end. A row sees positions 0 … its own, in the pages page_ids[first_page_N[row]] …. A token
/// is an id or sampled_before.
struct Tick {
  std::span<const std::int32_t> tokens_N, positions_N, first_page_N;
  std::span<const std::int32_t> page_ids;
  std::span<const SlotCopy> copies;  ///< before any row's forward; targets distinct
};

/// The samples of one tick, by the rule of ops/sample.h without top-k and top-p: inverse CDF.
struct SampleRows {
  std::span<const std::int32_t> rows;   ///< of the tick, ascending
  std::span<const double> uniforms;     ///< in [0, 1), one a row
  std::span<const float> temperatures;  ///< one a row; 0: greedy
};
struct SampledToken {
  std::int32_t token = 0;  ///< −1: the row's logits are not finite, or all −inf
  float logprob = 0;
};

/// Counts of an engine since its construction.
struct EngineStats {
  std::int64_t num_graphs = 0, graph_ticks = 0;  ///< recorded, launched
  double waited_s = 0;                           ///< its caller's time in waiting for the device
};

/// Runs a decoder's ticks. One thread calls it. Every CUDA call's result is checked: a failure is an internal error
/// that names the call. Inputs are checked before anything is launched.
class DecodeEngine {
 public:
  DecodeEngine() = default;
  DecodeEngine(const DecodeEngine&) = delete;
  DecodeEngine& operator=(const DecodeEngine&) = delete;
  virtual ~DecodeEngine() = default;

  /// Device and chosen GEMMs, for the log.
  virtual std::string describe() const = 0;
  /// The engine's weights, and its passes over whole sequences. Both live as long as the engine.
  virtual WeightStore& weights() = 0;
  virtual SequenceScorer& sequences() = 0;

  /// fp8_e4m3 keys and values: fp32 [layers, kv heads] each.
  virtual void set_kv_scales(std::span<const float> keys_LK, std::span<const float> values_LK) = 0;
  /// Memory of the pages, unless it is there; how many they are. An input error when the device has not enough, for
  /// one sequence of max_positions at least. Ticks that are not finished are forgotten.
  virtual std::int64_t allocate_kv() = 0;
  virtual void release_kv() = 0;

  /// Starts to run the rows through all layers, keys and values stored, and to sample. Everything given was read when
  /// it returns. Two ticks may be started and not finished: the device goes on to the second without its host.
  virtual void start(const Tick& tick, const SampleRows& samples) = 0;
  /// Blocks until the tick that was started first of those has sampled: `sampled` has the number of its samples.
  /// Returns at once when there are none.
  virtual void finish(std::span<SampledToken> sampled) = 0;
  /// Both, when no other tick is under way. Hidden states stay for `logits`.
  void run(const Tick& tick, const SampleRows& samples, std::span<SampledToken> sampled) {
    start(tick, samples);
    finish(sampled);
  }
  /// Logits of up to max_logit_rows() rows of the last tick, fp32 [rows, V]. Blocks until done.
  virtual void logits(std::span<const std::int32_t> rows, std::span<float> logits_RV) = 0;
  virtual std::int64_t max_logit_rows() const = 0;
  virtual const EngineStats& stats() const = 0;
};

/// Input errors: a program without CUDA, no driver, no GPU of a compute capability that the kernels were compiled for,
/// no cuBLASLt, sizes or formats that the kernels do not take.
std::unique_ptr<DecodeEngine> make_engine(const EngineOptions& options);

}  // namespace qrl::cuda
