// Owns the interface of a decoder on an NVIDIA GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cuda/gemm/gemm_plan.h"
#include "cuda/runtime/kept_back.h"
#include "cuda/runtime/layout.h"
#include "cuda/sample/row_cuts.h"
#include "model/block.h"
#include "model/config.h"
#include "quant/format.h"
#include "quant/kv_format.h"

namespace qrl::cuda {

class WeightStore;
class SequenceScorer;

/// Returns CUDA's version and the kernels' targets, such as "13.0 sm_80 sm_90a compute_90", or "off" without CUDA.
std::string version();

/// Layer index to pass if only the shapes of matrices matter: all layers have the same shapes.
inline constexpr std::int64_t kAnyLayer = 0;

/// Returns the bytes that GEMMs of at most num_rows rows keep for dequantized operands: the largest matrix and, for
/// fp8_block128, kDequantizedRowsAtOnce activation rows.
inline std::int64_t dequantized_bytes(quant::Format format, const model::ModelConfig& config, std::int64_t num_rows,
                                      bool row_only_sums) {
  const std::int64_t least = dequantized_rows(format);
  if (least == 0 || padded_rows(num_rows) < least || row_only_sums) return 0;
  std::int64_t largest = 0, widest = 0;
  model::visit_matrices(config, kAnyLayer, [&](const model::BlockMatrix& matrix, const auto&) {
    largest = std::max(largest, round_up(matrix.out(), 64) * round_up(matrix.in, 128));
    widest = std::max(widest, round_up(matrix.in, 128));
  });
  const bool quantizes_rows = format == quant::Format::fp8_block128;
  return 2 * (largest + (quantizes_rows ? kDequantizedRowsAtOnce * widest : 0));
}

/// Returns the bytes of a matrix's adapters: A and B of all its modules, in bf16.
inline std::int64_t adapter_bytes(const model::BlockMatrix& matrix, std::int64_t rank) {
  const std::int64_t all = static_cast<std::int64_t>(matrix.modules.size()) * rank;
  return 2 * (round_up(all, 64) * round_up(matrix.in, 128) + round_up(matrix.out(), 64) * round_up(all, 128));
}
/// Returns the bytes that ticks of num_rows rows keep for adapters' inputs and for the products A · x.
inline std::int64_t adapter_rows_bytes(const model::ModelConfig& config, std::int64_t rank, std::int64_t num_rows) {
  std::int64_t widest = 0, between = 0;
  model::visit_matrices(config, kAnyLayer, [&](const model::BlockMatrix& matrix, const auto&) {
    widest = std::max(widest, round_up(matrix.in, 128));
    between += round_up(static_cast<std::int64_t>(matrix.modules.size()) * rank, 128);
  });
  return 2 * num_rows * (widest + between);
}

struct EngineOptions {
  model::ModelConfig model;
  /// Index among the devices in CUDA_VISIBLE_DEVICES, modulo their count.
  int device_number = 0;
  std::int64_t max_rows = 0;       ///< per tick
  std::int64_t max_sequences = 0;  ///< per tick
  std::int64_t max_positions = 0;  ///< per sequence
  std::int64_t num_pages = 0;
  /// Share of device memory that all processes together may use. If above 0, allocate_kv allocates at most num_pages.
  /// If 0, it allocates exactly num_pages.
  double memory_utilization = 0;
  std::int64_t page_size = 0;  ///< tokens per page
  quant::KvFormat kv_format = quant::KvFormat::bf16;
  /// If set, GEMM results are fp32, as on the CPU, instead of bf16.
  bool f32_gemms = false;
  /// If set, a row's results depend on no other row of the tick. This makes ticks of many rows slower.
  bool row_only_sums = false;
  /// If set, ticks that sample for every row run as CUDA graphs, except the first tick of each shape. Results do not
  /// change.
  bool graphs = true;
  /// Limit on the graphs' device memory. The least launched graph leaves for a new one.
  std::size_t graph_bytes = kGraphBytes;
  /// Number of weights that a publish rotates at once, in scratch memory of 4 bytes each. One block of 128 rows, or a
  /// tensor with one scale, may be more.
  std::int64_t rotated_weights = 8 << 20;
};

/// Copies the first num_slots slots of page `from` to page `to` in every layer.
struct SlotCopy {
  std::int32_t from = 0, to = 0, num_slots = 0;
};

/// Returns the token value that refers to the output_idx-th sample of the previous tick.
constexpr std::int32_t pending_token(std::int32_t output_idx) { return -1 - output_idx; }

/// Holds the concatenated rows of a tick's sequences. A row attends to position 0 up to its own position. The page ids
/// of its sequence begin at page_ids[first_page_N[row]]. A token is a vocabulary id or a pending_token().
struct Tick {
  std::span<const std::int32_t> tokens_N, positions_N, first_page_N;
  std::span<const std::int32_t> page_ids;
  std::span<const SlotCopy> copies;  ///< copies made before the forward pass; target pages are distinct
};

/// Selects the rows that get a token. Tokens are sampled by inverse CDF (ops/sample.h).
struct SampleRows {
  std::span<const std::int32_t> rows;   ///< rows of the tick, ascending
  std::span<const double> uniforms;     ///< one per row, in [0, 1)
  std::span<const float> temperatures;  ///< one per row; 0: greedy
  std::span<const RowCuts> cuts = {};   ///< one per row; empty: no row has top-k or top-p
};
struct SampledToken {
  std::int32_t token = 0;  ///< −1 if a logit is NaN or +inf, or if all logits are −inf
  float logprob = 0;
  std::span<const std::int32_t> kept = {};  ///< of a row with cuts, ascending; valid until the next but one `start`
  bool limited = false;                     ///< whether max_kept excluded tokens
};

struct EngineStats {
  std::int64_t num_graphs = 0;   ///< graphs recorded so far
  std::int64_t held_graphs = 0;  ///< graphs that exist now
  std::size_t graph_bytes = 0;   ///< device memory of the graphs that exist now
  std::int64_t graph_ticks = 0;
  double waited_s = 0;  ///< time the caller waited for the device
};

/// Runs a decoder's ticks. Only one thread may call it. Checks inputs before any launch. A failed CUDA call throws an
/// internal error that names the call.
class DecodeEngine {
 public:
  DecodeEngine() = default;
  DecodeEngine(const DecodeEngine&) = delete;
  DecodeEngine& operator=(const DecodeEngine&) = delete;
  virtual ~DecodeEngine() = default;

  virtual std::string describe() const = 0;
  /// The returned parts live as long as the engine.
  virtual WeightStore& weights() = 0;
  virtual SequenceScorer& sequences() = 0;

  /// Sets the scales of fp8_e4m3 keys and values, fp32 [layers, kv heads] each.
  virtual void set_kv_scales(std::span<const float> keys_LK, std::span<const float> values_LK) = 0;
  /// Allocates the KV pages, unless they exist, and returns their number. Abandons unfinished ticks. Throws an input
  /// error if memory is too small for num_pages pages. With memory_utilization, throws only if memory is too small for
  /// one sequence of max_positions.
  virtual std::int64_t allocate_kv() = 0;
  virtual void release_kv() = 0;

  /// Starts a tick: runs all layers, stores keys and values, and samples. When it returns, the arguments' memory may be
  /// reused. At most two ticks may be unfinished.
  virtual void start(const Tick& tick, const SampleRows& samples) = 0;
  /// Finishes the oldest unfinished tick. Waits for its samples, if it has any, and writes each to an element of
  /// `sampled`.
  virtual void finish(std::span<SampledToken> sampled) = 0;
  /// Starts and finishes a tick. No other tick may be unfinished. Afterwards, `logits` can read the tick's rows.
  void run(const Tick& tick, const SampleRows& samples, std::span<SampledToken> sampled) {
    start(tick, samples);
    finish(sampled);
  }
  /// Computes logits of at most max_logit_rows() rows of the last tick, fp32 [rows, V], and blocks until done.
  virtual void logits(std::span<const std::int32_t> rows, std::span<float> logits_RV) = 0;
  virtual std::int64_t max_logit_rows() const = 0;
  virtual const EngineStats& stats() const = 0;
};

/// Throws an input error if CUDA, a driver, a supported GPU or cuBLASLt is missing, or if a size or format is
/// unsupported.
std::unique_ptr<DecodeEngine> make_engine(const EngineOptions& options);

}  // namespace qrl::cuda
