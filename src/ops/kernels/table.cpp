// Owns an instruction set's kernels as constant data, so that no code of the set runs before it is chosen.
#include "ops/kernels/kernels.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

constinit const Kernels kKernels = {
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
    .linear_bf16 = linear_bf16,
    .linear_int8 = linear_int8,
    .linear_fp8 = linear_fp8,
    .linear_fp8_block = linear_fp8_block,
    .linear_int4 = linear_int4,
    .linear_int4_int8 = linear_int4_int8,
    .rms_norm = rms_norm,
    .swiglu = swiglu,
    .rope = rope,
    .add_scaled = add_scaled,
    .max_value = max_value,
    .exp_weights = exp_weights,
    .exp_sum = exp_sum,
    .peak_bf16 = peak_bf16,
    .peak_f32 = peak_f32,
    .bf16_matmul = &kBf16Matmul,
    .f32_matmul = &kF32Matmul,
    .attention = &kAttention,
    .varlen_attention = &kVarlenAttention,
    .training = &kTraining,
    .delta_net = &kDeltaNet,
};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
