// Owns a tick's rows on their way through the model's blocks: memory between the kernels, and their order. Knows
// neither whose pages the keys and values go to nor what becomes of the last block's rows.
#pragma once

#include <cstddef>
#include <variant>

#include "cuda/engine/decode_engine.h"
#include "cuda/engine/tick_memory.h"
#include "cuda/engine/weights.h"
#include "cuda/gemm/gemms.h"
#include "cuda/runtime/kernels.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Rows of a width as a matrix of this format reads them.
QuantizedRows rows_for(quant::Format format, std::int64_t width, void* quantized, float* scales);

/// Memory for rows of a width in any format of activations, and their scales.
struct QuantizedMemory {
  QuantizedMemory(std::int64_t rows, std::int64_t width_)
      : width(width_),
        quantized(static_cast<std::size_t>(rows * round_up(width_, kInputChunk)) * 2),
        scales(static_cast<std::size_t>(rows * ceil_div(width_, kInputChunk)) * sizeof(float)) {}
  QuantizedRows for_layer(const DeviceMatrix& w) const {
    return rows_for(w.format, width, quantized.data(), scales.as<float>());
  }
  std::int64_t width;
  Memory quantized, scales;
};

inline Memory floats(std::int64_t count) { return Memory(static_cast<std::size_t>(count) * sizeof(float)); }

/// The residual stream of some rows, fp32 [*, width], and what is still to be added to it.
struct ResidualRows {
  float* x = nullptr;
  GemmRows branch{};
};

/// Everything is in the order of the stream that a call is given.
class Blocks {
 public:
  /// Room for ticks of `ticks`. `weights` and `gemms` must outlive it.
  Blocks(const EngineOptions& options, const TickMemory& ticks, const Weights& weights, Gemms& gemms);

  // A tick begins with embed or resume. Then each block stores its rows' keys and values, and attends.
  void embed(const TickArrays& arrays, const std::int32_t* sampled,
             const Stream& stream);  ///< sampled by the tick before
  /// With the residual stream after the block before, fp32 [rows, width].
  void resume(const float* x, std::int64_t num_rows, const Stream& stream);
  void store(std::size_t layer_idx, const TickArrays& arrays, const KvPages& pages, const Stream& stream);
  void attend(std::size_t layer_idx, const TickArrays& arrays, const KvPages& pages, const Stream& stream);

  /// Makes the memory that adapters of this rank need between their two products, unless it is there: before a tick.
  void reserve_adapters(std::int64_t rank);

  /// What the last block left.
  ResidualRows rows() const { return {x_.as<float>(), branch_}; }

 private:
  Memory gemm_memory(std::int64_t count) const;
  GemmRows rows_of(const Memory& y, std::int64_t stride) const { return {y.data(), stride, options_.f32_gemms}; }
  /// Where a kernel that quantizes rows for a matrix leaves them in bf16 for its adapter; null: the quantized rows are
  /// bf16 themselves, or there is none.
  std::uint16_t* wide_rows(const MatrixMemory& w, const QuantizedRows& x) const;
  /// y = x · Wᵀ; with an adapter y += B · (A · x), A · x rounded to bf16. `products`: memory for those.
  void multiply(const QuantizedRows& x, const MatrixMemory& w, std::int64_t num_rows, const Memory& y,
                std::int64_t y_stride, const Memory& products, const Stream& stream) const;

  EngineOptions options_;
  const Weights& weights_;
  Gemms& gemms_;
  std::int64_t qkv_stride_, width_stride_, gate_up_stride_;
  Memory x_, qkv_, q_, context_, y_, gate_up_;
  QuantizedMemory normed_, attended_, gated_;
  Memory partial_contexts_, partial_stats_;  // of attention
  std::int64_t max_rows_;
  Memory wide_rows_;                                       // of one matrix, for its adapter
  model::Block<std::monostate, Memory> adapter_products_;  // zero beyond a matrix's products, as GEMMs read them
  GemmRows branch_{};
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
