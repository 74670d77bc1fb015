// GEMMs of int4 weights, widened in registers, with bf16, e4m3 and int8 rows.
#include "tests/gpu_probes/swapped_gemm.cuh"

namespace qrl::probes {

namespace {

using cute::Shape, cute::_16, cute::_64, cute::_128;
using quant::Element;
using Cooperative = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
using TwoEnds = cutlass::epilogue::TmaWarpSpecializedCooperative;
using Int4 = cutlass::int4b_t;
using Bf16 = cutlass::bfloat16_t;

template <class Weights, class Rows, class Sum, class Tile>
using Mixed = SwappedGemm<Weights, 4, Rows, Sum, Tile, Cooperative, TwoEnds>;

constexpr ProbeKernel kKernels[] = {
    {"int4 x bf16 128x16x64, scales of groups", Element::int4, Element::bf16, true, 16,
     Mixed<cute::tuple<Int4, Bf16>, Bf16, float, Shape<_128, _16, _64>>::run},
    {"int4 x bf16 128x128x64, scales of groups", Element::int4, Element::bf16, true, 128,
     Mixed<cute::tuple<Int4, Bf16>, Bf16, float, Shape<_128, _128, _64>>::run},
    {"int4 x e4m3 128x128x128, no scales", Element::int4, Element::fp8_e4m3, false, 128,
     Mixed<cute::tuple<Int4>, cutlass::float_e4m3_t, float, Shape<_128, _128, _128>>::run},
    {"int4 x s8 128x128x128, no scales", Element::int4, Element::int8, false, 128,
     Mixed<cute::tuple<Int4>, std::int8_t, std::int32_t, Shape<_128, _128, _128>>::run},
};

}  // namespace

std::span<const ProbeKernel> mixed_kernels() { return kKernels; }

}  // namespace qrl::probes
