// The one place where an instruction set's kernels are listed. Constant data: nothing of an instruction set runs
// before it is chosen.
#include "ops/kernels/kernels.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

constinit const Kernels kKernels = {
    .max_abs = max_abs,
    .encode_bf16 = encode_bf16,
    .decode_bf16 = decode_bf16,
    .encode_int8 = encode_int8,
    .encode_fp8 = encode_fp8,
    .round_fp8 = round_fp8,
    .encode_int = encode_int,
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
    .max_value = max_value,
    .exp_weights = exp_weights,
    .exp_sum = exp_sum,
};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
