// GEMMs of equal elements by tiles of 16 to 256 rows.
#include "tests/gpu_probes/swapped_gemm.cuh"

namespace qrl::probes {

namespace {

using cute::Shape, cute::_16, cute::_64, cute::_128, cute::_256, cute::Int;
using quant::Element;
using Pingpong = cutlass::gemm::KernelTmaWarpSpecializedPingpong;
using Cooperative = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
using FastPingpong = cutlass::gemm::KernelTmaWarpSpecializedPingpongFP8FastAccum;
using OneEnd = cutlass::epilogue::TmaWarpSpecialized;
using TwoEnds = cutlass::epilogue::TmaWarpSpecializedCooperative;
using Bf16 = cutlass::bfloat16_t;
using E4m3 = cutlass::float_e4m3_t;
using S8 = std::int8_t;

template <class Element, class Sum, class Tile, class Mainloop, class Epilogue, class Scheduler = void>
using Tiled =
    SwappedGemm<Element, cutlass::sizeof_bits<Element>::value, Element, Sum, Tile, Mainloop, Epilogue, Scheduler>;

constexpr ProbeKernel kKernels[] = {
    {"bf16 64x16x128", Element::bf16, Element::bf16, false, 16,
     Tiled<Bf16, float, Shape<_64, _16, _128>, Pingpong, OneEnd>::run},
    {"bf16 128x256x64", Element::bf16, Element::bf16, false, 256,
     Tiled<Bf16, float, Shape<_128, _256, _64>, Cooperative, TwoEnds>::run},
    {"e4m3 64x16x256", Element::fp8_e4m3, Element::fp8_e4m3, false, 16,
     Tiled<E4m3, float, Shape<_64, _16, _256>, Pingpong, OneEnd>::run},
    {"e4m3 64x64x256", Element::fp8_e4m3, Element::fp8_e4m3, false, 64,
     Tiled<E4m3, float, Shape<_64, _64, _256>, Pingpong, OneEnd>::run},
    {"e4m3 64x64x256, fast accumulation", Element::fp8_e4m3, Element::fp8_e4m3, false, 64,
     Tiled<E4m3, float, Shape<_64, _64, _256>, FastPingpong, OneEnd>::run},
    {"e4m3 128x64x128, stream-K", Element::fp8_e4m3, Element::fp8_e4m3, false, 64,
     Tiled<E4m3, float, Shape<_128, _64, _128>, Cooperative, TwoEnds, cutlass::gemm::StreamKScheduler>::run},
    {"s8 64x16x256", Element::int8, Element::int8, false, 16,
     Tiled<S8, std::int32_t, Shape<_64, _16, _256>, Pingpong, OneEnd>::run},
    {"s8 64x64x256", Element::int8, Element::int8, false, 64,
     Tiled<S8, std::int32_t, Shape<_64, _64, _256>, Pingpong, OneEnd>::run},
};

}  // namespace

std::span<const ProbeKernel> tile_kernels() { return kKernels; }

}  // namespace qrl::probes
