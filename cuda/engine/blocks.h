#pragma once

#include <cstddef>
#include <variant>

#include "cuda/attention/kv.h"
#include "cuda/engine/decode_engine.h"
#include "cuda/engine/tick_memory.h"
#include "cuda/engine/weights.h"
#include "cuda/gemm/gemms.h"
#include "cuda/runtime/operands.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Returns rows of a matrix's input, in its format and rotation.
QuantizedRows rows_for(const DeviceMatrix& w, void* quantized, float* scales);

/// Owns memory for quantized rows of one width, in any format, and for their scales.
struct QuantizedMemory {
  QuantizedMemory(std::int64_t rows, std::int64_t width)
      : quantized(static_cast<std::size_t>(rows * round_up(width, kInputChunk)) * 2),
        scales(static_cast<std::size_t>(rows * ceil_div(width, kInputChunk)) * sizeof(float)) {}
  QuantizedRows for_layer(const DeviceMatrix& w) const { return rows_for(w, quantized.data(), scales.as<float>()); }
  Memory quantized, scales;
};

inline Memory floats(std::int64_t count) { return Memory(static_cast<std::size_t>(count) * sizeof(float)); }

/// Points to rows of the residual stream, fp32 [*, width], and to the last MLP's output, which is not yet added to
/// these rows.
struct ResidualRows {
  float* x = nullptr;
  GemmRows branch{};
};

/// Runs a tick through a model's blocks, in stream order.
class Blocks {
 public:
  /// Allocates memory for the largest tick of `ticks`. `weights` and `gemms` must outlive the object.
  Blocks(const EngineOptions& options, const TickMemory& ticks, const Weights& weights, Gemms& gemms);

  // Begin a tick with embed or resume, then call store and attend for each block in order.
  void embed(const TickArrays& arrays, const std::int32_t* sampled,
             const Stream& stream);  ///< sampled: the previous tick's sampled tokens
  /// Begins a tick from x, the residual stream after some block, fp32 [num_rows, width].
  void resume(const float* x, std::int64_t num_rows, const Stream& stream);
  void store(std::size_t layer_idx, const TickArrays& arrays, const KvPages& pages, const Stream& stream);
  void attend(std::size_t layer_idx, const TickArrays& arrays, const KvPages& pages, const Stream& stream);

  /// Allocates memory for the adapters' inputs and for their products A · x. Only the first call allocates. Must be
  /// called before a tick with adapters.
  void reserve_adapters(std::int64_t rank);

  ResidualRows rows() const { return {x_.as<float>(), branch_}; }

 private:
  Memory gemm_memory(std::int64_t count) const;
  GemmRows rows_of(const Memory& y, std::int64_t stride) const { return {y.data(), stride, options_.f32_gemms}; }
  /// Returns what the residual stream adds of a GEMM's result y_: the result, or its norm with `gain`, times the
  /// model's factor. `bias` is then in it, and becomes null.
  GemmRows branch_of(const Memory& gain, const float*& bias, std::int64_t num_rows, const Stream& stream) const;
  /// Returns memory for a bf16 copy of x, which the adapter of `w` reads. Returns null if `w` has no adapter, or if x
  /// is bf16 and not rotated.
  std::uint16_t* wide_rows(const MatrixMemory& w, const QuantizedRows& x) const;
  /// Computes y = x · Wᵀ. If `w` has an adapter, adds B · (A · x). `products` receives A · x in bf16.
  void multiply(const QuantizedRows& x, const MatrixMemory& w, std::int64_t num_rows, const Memory& y,
                std::int64_t y_stride, const Memory& products, const Stream& stream) const;

  EngineOptions options_;
  const Weights& weights_;
  Gemms& gemms_;
  std::int64_t qkv_stride_, width_stride_, gate_up_stride_;
  Memory x_, qkv_, q_, context_, y_, gate_up_;
  QuantizedMemory normed_, attended_, gated_;
  Memory partial_contexts_, partial_stats_;  // attention's chunk results
  Memory branch_rows_;                       // fp32 [*, D]; empty if GEMMs' results are added as they are
  Memory inverse_rms_;                       // fp32 [*, 2]; empty without norms over whole projections
  std::int64_t max_rows_;
  Memory wide_rows_;                                       // bf16 copy of a matrix's input, for its adapter
  model::Block<std::monostate, Memory> adapter_products_;  // A · x; zero-padded, because GEMMs read the padding
  GemmRows branch_{};
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
