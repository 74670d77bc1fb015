// Owns the list of kernels that every instruction set provides, and the plain structs they take. Knows nothing of
// tensors, teams or errors: ops/*.cpp check and split the work, then call through the table in use.
//
// Included by the kernel sources, so it holds plain types only (see simd.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace qrl::ops {

/// Inputs whose weights exist dequantized at once, in whole segments under one scale.
inline constexpr std::int64_t kLinearScratchInputs = 3072;
/// Scratch of a product with weights that are dequantized for it: those of a panel, and the sums of `rows` rows.
constexpr std::int64_t linear_scratch_floats(std::int64_t rows) { return (kLinearScratchInputs / 2 + 2 * rows) * 64; }

struct MatmulKernels;           // matmul.h
struct PeakLoops;               // peak_loops.h
struct VarlenAttentionKernels;  // varlen_attention.h

/// A second product of the same rows, of some columns of the first one's: whole panels of both.
struct AddedTask {
  const void* x = nullptr;    ///< bf16 or fp32 of the first row; null: there is none
  std::int64_t x_stride = 0;  ///< elements from row to row
  const void* panels = nullptr;
  std::int64_t in = 0;
  std::int64_t first_column = 0;  ///< of the first product, where the second one's column 0 is
  bool is_bf16 = false;
};

/// Encoded rows times a range of a packed layer's panels (ops/linear.h has the layouts). Pointers are not owned.
struct LinearTask {
  const void* x = nullptr;          ///< quantized values of the first row
  std::int64_t x_stride = 0;        ///< elements from row to row
  const float* x_scales = nullptr;  ///< of the first row; null: none
  std::int64_t x_scale_stride = 0;  ///< scales from row to row
  std::int64_t rows = 0;
  const void* panels = nullptr;               ///< the layer's first panel
  const void* scales = nullptr;               ///< fp32, int4's bf16; null: none
  const std::int32_t* column_sums = nullptr;  ///< with int8 activations only
  std::int64_t scale_stride = 0;              ///< of scales and column_sums, from one segment of inputs to the next
  const float* bias = nullptr;                ///< null: none
  std::int64_t in = 0, out = 0;
  std::int64_t first_panel = 0, end_panel = 0;
  float* y = nullptr;         ///< column 0 of the first row (tiles: where it would be)
  std::int64_t y_stride = 0;  ///< elements from row to row
  bool accumulate = false;    ///< y += instead of y =
  float* scratch = nullptr;   ///< linear_scratch_floats, 64-byte aligned; for e4m3 and int4 only
  AddedTask added;            ///< its fp32 sums are added behind the bias; where Kernels::adds_products
};

/// Heads of one row, in place: RMSNorm where `gain` is not null, then rotate-half with `rope` (cosines, then sines).
struct RopeTask {
  float* heads = nullptr;  ///< [num_heads, head_dim]
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  const float* gain = nullptr;
  float eps = 0;
  const float* rope = nullptr;  ///< [head_dim]
};

/// A row that is rotated by blocks (quant/rotation.h); `turned` may be `x`.
struct RotateTask {
  const float* x = nullptr;
  std::int64_t n = 0;      ///< whole blocks
  std::int64_t block = 0;  ///< 32, 64 or 128
  float scale = 1;         ///< 1/√block
  float* turned = nullptr;
};

/// The kernels of one instruction set. bf16 is passed as its bits.
struct Kernels {
  bool adds_products;  ///< linear_… take LinearTask::added
  /// Largest |x|, or a value that is not finite when one of x is not.
  float (*max_abs)(const float* x, std::int64_t n);
  /// quant::rotate, same bits; returns max_abs of what it wrote.
  float (*rotate)(const RotateTask& task);
  void (*round_to_bf16)(const float* x, std::int64_t n, std::uint16_t* quantized);
  void (*widen_bf16)(const std::uint16_t* quantized, std::int64_t n, float* x);
  /// quant::quantize_int8, same bits.
  float (*quantize_int8)(const float* x, std::int64_t n, std::int8_t* quantized);
  /// The same of x · factors.
  float (*quantize_product_int8)(const float* x, const float* factors, std::int64_t n, std::int8_t* quantized);
  /// quant::quantize_fp8 of x/scale, same bits.
  void (*quantize_fp8)(const float* x, std::int64_t n, float scale, std::uint8_t* quantized);
  /// x/scale rounded to e4m3's numbers, as bf16 bits; saturating, NaN stays NaN.
  void (*round_fp8)(const float* x, std::int64_t n, float scale, std::uint16_t* rounded);
  /// round-half-even(x/scale), clamped to ±limit.
  void (*quantize_int)(const float* x, std::int64_t n, float scale, float limit, std::int8_t* quantized);
  void (*linear_f32)(const LinearTask& task);
  void (*linear_bf16)(const LinearTask& task);
  void (*linear_int8)(const LinearTask& task);
  void (*linear_fp8)(const LinearTask& task);        ///< one scale an output channel
  void (*linear_fp8_block)(const LinearTask& task);  ///< a scale for 128 inputs, of x too
  void (*linear_int4)(const LinearTask& task);       ///< x bf16, or e4m3 when it has scales
  void (*linear_int4_int8)(const LinearTask& task);
  /// y = x · gain / sqrt(mean(x²) + eps)
  void (*rms_norm)(const float* x, const float* gain, float eps, std::int64_t n, float* y);
  /// y = silu(gate) · up
  void (*swiglu)(const float* gate, const float* up, std::int64_t n, float* y);
  void (*rope)(const RopeTask& task);
  /// Largest of x; NaN among x may or may not show.
  float (*max_value)(const float* x, std::int64_t n);
  /// weights = exp((x − max) · inverse_temperature); returns their fp32 sum.
  float (*exp_weights)(const float* x, std::int64_t n, float max, float inverse_temperature, float* weights);
  /// The same sum, nothing stored.
  float (*exp_sum)(const float* x, std::int64_t n, float max, float inverse_temperature);
};

/// The kernels of AMX's tiles, which the path amx has in place of avx512's.
struct TileKernels {
  void (*linear_bf16)(const LinearTask& task);
  void (*linear_int8)(const LinearTask& task);
  void (*linear_fp8)(const LinearTask& task);
  void (*linear_fp8_block)(const LinearTask& task);
  void (*linear_int4)(const LinearTask& task);
  void (*linear_int4_int8)(const LinearTask& task);
  const MatmulKernels& bf16_matmul;
  const VarlenAttentionKernels& varlen_attention;
  const PeakLoops& peak_loops;  ///< bf16 only; f32 is null
};

namespace amx {
extern const TileKernels kTiles;
}
namespace avx512 {
extern const Kernels kKernels;
}
namespace avx2 {
extern const Kernels kKernels;
}
namespace portable {
extern const Kernels kKernels;
}

/// The table of the path in use (ops/isa.h).
const Kernels& kernels();
/// The tiles of the path amx: the processor's, or those that replace_tiles gave.
const TileKernels& tiles();

#if defined(QRL_ISA_NAMESPACE)
namespace QRL_ISA_NAMESPACE {
extern const TileKernels kTiles;
float max_abs(const float* x, std::int64_t n);
float rotate(const RotateTask& task);
void round_to_bf16(const float* x, std::int64_t n, std::uint16_t* quantized);
void widen_bf16(const std::uint16_t* quantized, std::int64_t n, float* x);
float quantize_int8(const float* x, std::int64_t n, std::int8_t* quantized);
float quantize_product_int8(const float* x, const float* factors, std::int64_t n, std::int8_t* quantized);
void quantize_fp8(const float* x, std::int64_t n, float scale, std::uint8_t* quantized);
void round_fp8(const float* x, std::int64_t n, float scale, std::uint16_t* rounded);
void quantize_int(const float* x, std::int64_t n, float scale, float limit, std::int8_t* quantized);
void linear_f32(const LinearTask& task);
void linear_bf16(const LinearTask& task);
void linear_int8(const LinearTask& task);
void linear_fp8(const LinearTask& task);
void linear_fp8_block(const LinearTask& task);
void linear_int4(const LinearTask& task);
void linear_int4_int8(const LinearTask& task);
void rms_norm(const float* x, const float* gain, float eps, std::int64_t n, float* y);
void swiglu(const float* gate, const float* up, std::int64_t n, float* y);
void rope(const RopeTask& task);
float max_value(const float* x, std::int64_t n);
float exp_weights(const float* x, std::int64_t n, float max, float inverse_temperature, float* weights);
float exp_sum(const float* x, std::int64_t n, float max, float inverse_temperature);
}  // namespace QRL_ISA_NAMESPACE
#endif

}  // namespace qrl::ops
