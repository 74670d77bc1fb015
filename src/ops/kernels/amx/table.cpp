#include "ops/kernels/amx/tile_chain.h"
#include "ops/kernels/kernels.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

constinit const TileKernels kTiles = {
    .linear_bf16 = linear_bf16,
    .linear_int8 = linear_int8,
    .linear_fp8 = linear_fp8,
    .linear_fp8_block = linear_fp8_block,
    .linear_int4 = linear_int4,
    .linear_int4_int8 = linear_int4_int8,
    .peak_bf16 = run_tile_chain<Bf16Tiles>,
    .bf16_matmul = kBf16Matmul,
    .varlen_attention = kVarlenAttention,
};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
