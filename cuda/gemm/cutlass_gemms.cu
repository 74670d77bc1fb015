// CUTLASS's warp-specialized GEMM of int8 or e4m3 matrices on sm_90a: y = sum · (token scale · channel scale).

#include <cuda_runtime_api.h>
#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>

#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/fusion/operations.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <string>

#include "base/error.h"
#include "cuda/gemm/cutlass_gemms.h"
#include "cuda/gemm/gemm_plan.h"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

template <class Element, class Sum, class Output, class Tile, class Cluster, class MainloopSchedule,
          class EpilogueSchedule>
struct CutlassGemm {
  static constexpr int kAlignment = 16 / sizeof(Element), kOutputAlignment = 16 / sizeof(Output);
  static constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;

  // One scale per row of y, which CUTLASS calls a column broadcast.
  using TokenScale = cutlass::epilogue::fusion::Sm90ColBroadcast<0, Tile, float>;
  using ChannelScale = cutlass::epilogue::fusion::Sm90RowBroadcast<0, Tile, float>;
  using Scale = cutlass::epilogue::fusion::Sm90EVT<
      cutlass::epilogue::fusion::Sm90Compute<cutlass::multiplies, float, float, kRound>, TokenScale, ChannelScale>;
  using Scaled = cutlass::epilogue::fusion::Sm90EVT<
      cutlass::epilogue::fusion::Sm90Compute<cutlass::multiplies, Output, float, kRound>,
      cutlass::epilogue::fusion::Sm90AccFetch, Scale>;

  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, Sum, float, void, cutlass::layout::RowMajor, kOutputAlignment,
      Output, cutlass::layout::RowMajor, kOutputAlignment, EpilogueSchedule, Scaled>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, cutlass::layout::RowMajor, kAlignment, Element,
      cutlass::layout::ColumnMajor, kAlignment, Sum, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
      MainloopSchedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

  static void check(cutlass::Status status, const char* what) {
    QRL_INVARIANT(status == cutlass::Status::kSuccess, what, "success", cutlassGetStatusString(status));
  }

  static void run(const GemmTask& task, const CutlassPlace& place, const Stream& stream) {
    const MatrixLayout& at = task.w.at;
    const int m = static_cast<int>(task.num_rows), n = static_cast<int>(at.rows), k = static_cast<int>(at.width);
    typename Gemm::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGemm, {m, n, k, 1}};
    arguments.mainloop.ptr_A = static_cast<const Element*>(task.x.quantized);
    arguments.mainloop.dA = {task.x.stride, cute::Int<1>{}, 0};
    arguments.mainloop.ptr_B = reinterpret_cast<const Element*>(task.w.quantized);
    arguments.mainloop.dB = {at.width, cute::Int<1>{}, 0};
    arguments.epilogue.thread = {{}, {{task.x.scales}, {task.w.scales}, {}}, {}};
    arguments.epilogue.ptr_C = nullptr;
    arguments.epilogue.dC = {task.y_stride, cute::Int<1>{}, 0};
    arguments.epilogue.ptr_D = static_cast<Output*>(task.y);
    arguments.epilogue.dD = {task.y_stride, cute::Int<1>{}, 0};
    arguments.hw_info.device_id = 0;
    arguments.hw_info.sm_count = place.num_multiprocessors;
    Gemm gemm;
    check(Gemm::can_implement(arguments), "CUTLASS GEMM: can_implement");
    const std::size_t workspace_bytes = Gemm::get_workspace_size(arguments);
    QRL_INVARIANT(workspace_bytes <= place.workspace_bytes, "CUTLASS GEMM: workspace",
                  std::to_string(place.workspace_bytes) + " bytes or fewer", std::to_string(workspace_bytes));
    const auto cuda_stream = static_cast<cudaStream_t>(stream.handle());
    check(gemm.initialize(arguments, place.workspace, cuda_stream), "CUTLASS GEMM: initialize");
    // Allows the kernel to begin before the previous one ends, as `launch` does. Its producer warp waits for the
    // previous kernel's end before the first load.
    check(gemm.run(cuda_stream, nullptr, kernels_overlap()), "CUTLASS GEMM: run");
  }
};

/// Runs the GEMM in tiles of cutlass_tile_rows rows. One warp group computes a tile of 64 rows, two compute a tile of
/// 128 rows. Weights are multicast to the blocks of a cluster.
template <class Element, class Sum, class Output, class RowTiles>
void cutlass_gemm(const GemmTask& task, const CutlassPlace& place, const Stream& stream) {
  using cute::Shape, cute::_1, cute::_64, cute::_128;
  using Cluster = Shape<RowTiles, _1, _1>;
  using Narrow = CutlassGemm<Element, Sum, Output, Shape<_64, _128, _128>, Cluster,
                             cutlass::gemm::KernelTmaWarpSpecializedPingpong, cutlass::epilogue::TmaWarpSpecialized>;
  using Wide =
      CutlassGemm<Element, Sum, Output, Shape<_128, _128, _128>, Cluster,
                  cutlass::gemm::KernelTmaWarpSpecializedCooperative, cutlass::epilogue::TmaWarpSpecializedCooperative>;
  if (cutlass_tile_rows(task.w.at, task.num_rows, place.num_multiprocessors) == 64) Narrow::run(task, place, stream);
  else Wide::run(task, place, stream);
}

/// Runs the GEMM with a bf16 result. Clusters have two blocks if the rows fill several tiles, otherwise one block.
template <class Element, class Sum>
void cutlass_layer_gemm(const GemmTask& task, const CutlassPlace& place, const Stream& stream) {
  const std::int64_t tile_rows = cutlass_tile_rows(task.w.at, task.num_rows, place.num_multiprocessors);
  if (task.num_rows > tile_rows) cutlass_gemm<Element, Sum, cutlass::bfloat16_t, cute::_2>(task, place, stream);
  else cutlass_gemm<Element, Sum, cutlass::bfloat16_t, cute::_1>(task, place, stream);
}

}  // namespace

void cutlass_int8(const GemmTask& task, const CutlassPlace& place, const Stream& stream) {
  if (task.y_is_f32) cutlass_gemm<std::int8_t, std::int32_t, float, cute::_1>(task, place, stream);
  else cutlass_layer_gemm<std::int8_t, std::int32_t>(task, place, stream);
}

void cutlass_fp8(const GemmTask& task, const CutlassPlace& place, const Stream& stream) {
  cutlass_layer_gemm<cutlass::float_e4m3_t, float>(task, place, stream);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
