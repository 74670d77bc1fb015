// Owns an instruction set's kernels as constant data, so that no code of the set runs before it is chosen.
#include "ops/kernels/kernels.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

constexpr Kernels kTable = {
    .adds_products = true,
    .max_abs = max_abs,
    .rotate = rotate,
    .round_to_bf16 = round_to_bf16,
    .widen_bf16 = widen_bf16,
    .quantize_int8 = quantize_int8,
    .quantize_product_int8 = quantize_product_int8,
    .quantize_fp8 = quantize_fp8,
    .round_fp8 = round_fp8,
    .quantize_int = quantize_int,
    .int4_sums = int4_sums,
    .linear_f32 = linear_f32,
    .linear_bf16 = linear_bf16_by_fma,
    .linear_int8 = linear_int8,
    .linear_fp8 = linear_fp8_by_fma,
    .linear_fp8_block = linear_fp8_block_by_fma,
    .linear_int4 = linear_int4_by_fma,
    .linear_int4_int8 = linear_int4_int8,
    .rms_norm = rms_norm,
    .swiglu = swiglu,
    .rope = rope,
    .add_scaled = add_scaled,
    .max_value = max_value,
    .exp_weights = exp_weights,
    .exp_sum = exp_sum,
    .peak_bf16 = peak_f32,
    .peak_f32 = peak_f32,
    .bf16_matmul = &kBf16MatmulByFma,
    .f32_matmul = &kF32Matmul,
    .attention = &kAttention,
    .varlen_attention = &kVarlenAttention,
    .training = &kTraining,
    .delta_net = &kDeltaNet,
};

#if defined(QRL_ISA_AVX512)
constexpr Kernels in_pairs() {
  Kernels kernels = kTable;
  kernels.linear_bf16 = linear_bf16_pairs;
  kernels.linear_fp8 = linear_fp8;
  kernels.linear_fp8_block = linear_fp8_block;
  kernels.linear_int4 = linear_int4;
  kernels.peak_bf16 = peak_bf16;
  kernels.bf16_matmul = &kBf16Matmul;
  return kernels;
}
#endif

}  // namespace

#if defined(QRL_ISA_AVX512)
constinit const Kernels kKernels = in_pairs();
constinit const Kernels kKernelsByFma = kTable;
#else
constinit const Kernels kKernels = kTable;
#endif

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
