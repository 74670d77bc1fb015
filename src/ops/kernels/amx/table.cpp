#include "ops/kernels/kernels.h"
#include "ops/kernels/matmul.h"
#include "ops/kernels/peak_loops.h"
#include "ops/kernels/varlen_attention.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

constinit const TileKernels kTiles = {
    .linear_bf16 = linear_bf16,
    .linear_int8 = linear_int8,
    .linear_fp8 = linear_fp8,
    .linear_fp8_block = linear_fp8_block,
    .linear_int4 = linear_int4,
    .linear_int4_int8 = linear_int4_int8,
    .bf16_matmul = kBf16Matmul,
    .varlen_attention = kVarlenAttention,
    .peak_loops = kPeakLoops,
};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
