// Owns the table of each instruction set's kernels, and their argument structs. ops/dispatch checks arguments and
// splits the work. Uses only plain types (reason: simd.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/gate.h"

namespace qrl::ops {

/// Number of a panel's inputs whose weights are dequantized at once. A multiple of every scale-group size.
inline constexpr std::int64_t kLinearScratchInputs = 3072;
/// Returns a linear kernel's scratch size in floats, for one panel's dequantized weights and the sums of `rows` rows.
constexpr std::int64_t linear_scratch_floats(std::int64_t rows) { return (kLinearScratchInputs / 2 + 2 * rows) * 64; }
/// Returns a row's inputs with its padding, which take up to four bytes each where a kernel widens its rows.
constexpr std::int64_t wide_row_inputs(std::int64_t width) { return (width + 63) / 64 * 64; }

/// Number of candidates of Kernels::int4_sums.
inline constexpr int kInt4Candidates = 3;

struct AttentionKernels;
struct DeltaKernels;
struct MatmulKernels;
struct TrainingKernels;
struct VarlenAttentionKernels;

/// Describes a second product of the same rows, added to some of the first product's columns (ops::AddedProduct).
struct AddedTask {
  const void* x = nullptr;  ///< first row, bf16 or fp32; null: no second product
  std::int64_t x_stride = 0;
  const void* panels = nullptr;
  std::int64_t in = 0;
  std::int64_t first_column = 0;  ///< column of the first product to which column 0 of this product is added
  bool is_bf16 = false;
};

/// Describes the product of quantized rows and a range of a packed layer's panels (ops/linear.h).
struct LinearTask {
  const void* x = nullptr;          ///< first row
  std::int64_t x_stride = 0;        ///< stride in elements
  const float* x_scales = nullptr;  ///< scales of the first row; null: none
  std::int64_t x_scale_stride = 0;  ///< stride in scales
  std::int64_t rows = 0;
  const void* panels = nullptr;               ///< panel 0 of the layer
  const void* scales = nullptr;               ///< weight scales, fp32 (int4: bf16); null: none
  const std::int32_t* column_sums = nullptr;  ///< set for int8 activations only
  std::int64_t scale_stride = 0;              ///< elements between groups of inputs, in scales and column_sums
  const float* bias = nullptr;                ///< null: none
  std::int64_t in = 0, out = 0;
  std::int64_t scale_inputs = 0;  ///< inputs per weight scale; 0: all
  std::int64_t first_panel = 0, end_panel = 0;
  float* y = nullptr;  ///< column 0 of the first row; may precede the allocation if first_panel > 0
  std::int64_t y_stride = 0;
  bool accumulate = false;
  /// [linear_scratch_floats], then four bytes for each input of the padded rows; 64-byte aligned.
  float* scratch = nullptr;
  AddedTask added;  ///< added in fp32 after the bias; set only if Kernels::adds_products
};

/// Applies RMSNorm (unless `gain` is null), then rotate-half to the first rotary_dim elements, to one row's heads in
/// place. `rope` holds cosines, then sines.
struct RopeTask {
  float* heads = nullptr;  ///< [num_heads, head_dim]
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  const float* gain = nullptr;  ///< [head_dim]; with `norms_whole` [num_heads · head_dim]
  float eps = 0;
  bool norms_whole = false;  ///< if set, one norm is over all heads
  std::int64_t rotary_dim = 0;
  const float* rope = nullptr;  ///< [rotary_dim]
};

/// `turned` receives the rotated row and may be `x`.
struct RotateTask {
  const float* x = nullptr;
  std::int64_t n = 0;  ///< a multiple of block
  std::int64_t block = 0;
  float scale = 1;  ///< 1/√block
  float* turned = nullptr;
};

/// Holds one instruction set's kernels. bf16 values are passed as 16-bit patterns.
struct Kernels {
  bool adds_products;  ///< whether the linear_* kernels accept LinearTask::added
  /// Returns the largest |x|; not finite if an element is not.
  float (*max_abs)(const float* x, std::int64_t n);
  /// Computes quant::rotate, bit-identically, and returns max_abs of the output.
  float (*rotate)(const RotateTask& task);
  void (*round_to_bf16)(const float* x, std::int64_t n, std::uint16_t* quantized);
  void (*widen_bf16)(const std::uint16_t* quantized, std::int64_t n, float* x);
  /// Computes quant::quantize_int8, bit-identically.
  float (*quantize_int8)(const float* x, std::int64_t n, std::int8_t* quantized);
  float (*quantize_product_int8)(const float* x, const float* factors, std::int64_t n, std::int8_t* quantized);
  /// Computes quant::quantize_fp8 of x/scale, bit-identically.
  void (*quantize_fp8)(const float* x, std::int64_t n, float scale, std::uint8_t* quantized);
  /// Rounds x/scale to e4m3 values, stored as bf16 bits; saturates beyond ±448. NaN stays NaN.
  void (*round_fp8)(const float* x, std::int64_t n, float scale, std::uint16_t* rounded);
  /// Computes round-half-even(x/scale), clamped to lowest … highest.
  void (*quantize_int)(const float* x, std::int64_t n, float scale, float lowest, float highest,
                       std::int8_t* quantized);
  /// Computes quant::Int4Sums of x for kInt4Candidates candidates.
  void (*int4_sums)(const float* x, std::int64_t n, const float* inverse, float grid, std::int32_t* squares,
                    std::int32_t* products);
  void (*linear_f32)(const LinearTask& task);
  void (*linear_bf16)(const LinearTask& task);
  void (*linear_int8)(const LinearTask& task);
  void (*linear_fp8)(const LinearTask& task);        ///< one weight scale per output channel
  void (*linear_fp8_block)(const LinearTask& task);  ///< one scale per 128 inputs, in weights and x
  void (*linear_int4)(const LinearTask& task);       ///< x is bf16, or e4m3 values as bf16 if x_scales is set
  void (*linear_int4_int8)(const LinearTask& task);
  void (*rms_norm)(const float* x, const float* gain, float eps, std::int64_t n, float* y);
  /// Computes y = activation(gate) · up.
  void (*swiglu)(base::Gate activation, const float* gate, const float* up, std::int64_t n, float* y);
  void (*rope)(const RopeTask& task);
  /// Computes x + factor · y in x; the product is rounded.
  void (*add_scaled)(const float* y, float factor, std::int64_t n, float* x);
  /// Returns the largest x; may ignore NaN.
  float (*max_value)(const float* x, std::int64_t n);
  /// Computes weights = exp((x − max) · inverse_temperature); returns their fp32 sum.
  float (*exp_weights)(const float* x, std::int64_t n, float max, float inverse_temperature, float* weights);
  float (*exp_sum)(const float* x, std::int64_t n, float max, float inverse_temperature);
  /// Run `rounds` rounds of multiply-adds in registers, in enough chains to fill the pipelines. Return the number of
  /// operations, two per multiply-add.
  std::int64_t (*peak_bf16)(std::int64_t rounds);
  std::int64_t (*peak_f32)(std::int64_t rounds);
  const MatmulKernels *bf16_matmul, *f32_matmul;
  const AttentionKernels* attention;
  const VarlenAttentionKernels* varlen_attention;
  const TrainingKernels* training;
  const DeltaKernels* delta_net;
};

/// Kernels that replace avx512's on the amx path.
struct TileKernels {
  void (*linear_bf16)(const LinearTask& task);
  void (*linear_int8)(const LinearTask& task);
  void (*linear_fp8)(const LinearTask& task);
  void (*linear_fp8_block)(const LinearTask& task);
  void (*linear_int4)(const LinearTask& task);
  void (*linear_int4_int8)(const LinearTask& task);
  std::int64_t (*peak_bf16)(std::int64_t rounds);
  const MatmulKernels& bf16_matmul;
  const VarlenAttentionKernels& varlen_attention;
};

namespace amx {
extern const TileKernels kTiles;
}
namespace avx512 {
extern const Kernels kKernels;
/// Multiplies bf16 numbers by fp32 FMAs, with the values of kKernels. That is twice as fast on Intel's processors with
/// AMX, where AMX is not granted. On AMD's, vdpbf16ps is faster.
extern const Kernels kKernelsByFma;
}  // namespace avx512
namespace avx2 {
extern const Kernels kKernels;
}
namespace portable {
extern const Kernels kKernels;
}

const Kernels& kernels();

#if defined(QRL_ISA_NAMESPACE)
namespace QRL_ISA_NAMESPACE {
extern const TileKernels kTiles;
extern const MatmulKernels kBf16Matmul, kBf16MatmulByFma, kF32Matmul;
extern const AttentionKernels kAttention;
extern const VarlenAttentionKernels kVarlenAttention;
extern const TrainingKernels kTraining;
extern const DeltaKernels kDeltaNet;
float max_abs(const float* x, std::int64_t n);
float rotate(const RotateTask& task);
void round_to_bf16(const float* x, std::int64_t n, std::uint16_t* quantized);
void widen_bf16(const std::uint16_t* quantized, std::int64_t n, float* x);
float quantize_int8(const float* x, std::int64_t n, std::int8_t* quantized);
float quantize_product_int8(const float* x, const float* factors, std::int64_t n, std::int8_t* quantized);
void quantize_fp8(const float* x, std::int64_t n, float scale, std::uint8_t* quantized);
void round_fp8(const float* x, std::int64_t n, float scale, std::uint16_t* rounded);
void quantize_int(const float* x, std::int64_t n, float scale, float lowest, float highest, std::int8_t* quantized);
void int4_sums(const float* x, std::int64_t n, const float* inverse, float grid, std::int32_t* squares,
               std::int32_t* products);
void linear_f32(const LinearTask& task);
void linear_bf16(const LinearTask& task);
void linear_bf16_pairs(const LinearTask& task);
void linear_bf16_by_fma(const LinearTask& task);
void linear_fp8_by_fma(const LinearTask& task);
void linear_fp8_block_by_fma(const LinearTask& task);
void linear_int4_by_fma(const LinearTask& task);
void linear_int8(const LinearTask& task);
void linear_fp8(const LinearTask& task);
void linear_fp8_block(const LinearTask& task);
void linear_int4(const LinearTask& task);
void linear_int4_int8(const LinearTask& task);
void rms_norm(const float* x, const float* gain, float eps, std::int64_t n, float* y);
void swiglu(base::Gate activation, const float* gate, const float* up, std::int64_t n, float* y);
void rope(const RopeTask& task);
void add_scaled(const float* y, float factor, std::int64_t n, float* x);
float max_value(const float* x, std::int64_t n);
float exp_weights(const float* x, std::int64_t n, float max, float inverse_temperature, float* weights);
float exp_sum(const float* x, std::int64_t n, float max, float inverse_temperature);
std::int64_t peak_bf16(std::int64_t rounds);
std::int64_t peak_f32(std::int64_t rounds);
}  // namespace QRL_ISA_NAMESPACE
#endif

}  // namespace qrl::ops
