// Owns CUTLASS GEMMs whose weights are operand A and whose rows are operand B (swap-AB): a tile then has few rows.
#pragma once

#include <cuda_runtime_api.h>
#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>

#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include "tests/gpu_probes/probes.h"

namespace qrl::probes {

/// Weights is an element, or a tuple of a narrow element and the type of its scale for each group of inputs (none: a
/// tuple of one). Scheduler: void, or StreamKScheduler.
template <class Weights, int weight_bits, class Rows, class Sum, class Tile, class Mainloop, class Epilogue,
          class Scheduler = void>
struct SwappedGemm {
  static constexpr int kRowBits = cutlass::sizeof_bits<Rows>::value;
  using Output = cutlass::bfloat16_t;
  using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
  using End = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, Sum, float, void, cutlass::layout::ColumnMajor, 8, Output,
      cutlass::layout::ColumnMajor, 8, Epilogue>::CollectiveOp;
  using Body = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Weights, cutlass::layout::RowMajor, 128 / weight_bits, Rows,
      cutlass::layout::ColumnMajor, 128 / kRowBits, Sum, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename End::SharedStorage))>,
      Mainloop>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Body, End, Scheduler>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

  static bool run(const ProbeGemm& task, void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
    const int m = static_cast<int>(task.outputs), n = static_cast<int>(task.num_rows),
              k = static_cast<int>(task.inputs);
    typename Gemm::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGemm, {m, n, k, 1}};
    arguments.mainloop.ptr_A = reinterpret_cast<decltype(arguments.mainloop.ptr_A)>(task.weights);
    arguments.mainloop.dA = {task.inputs, cute::Int<1>{}, 0};
    arguments.mainloop.ptr_B = reinterpret_cast<decltype(arguments.mainloop.ptr_B)>(task.rows);
    arguments.mainloop.dB = {task.inputs, cute::Int<1>{}, 0};
    if constexpr (requires { arguments.mainloop.ptr_S; }) {
      if (task.scales != nullptr) {
        arguments.mainloop.ptr_S = reinterpret_cast<decltype(arguments.mainloop.ptr_S)>(task.scales);
        arguments.mainloop.dS = {cute::Int<1>{}, task.outputs, 0};
        arguments.mainloop.group_size = kProbeGroup;
      }
    }
    arguments.epilogue.thread.alpha = task.alpha;
    arguments.epilogue.thread.beta = 0;
    arguments.epilogue.ptr_C = nullptr;
    arguments.epilogue.dC = {cute::Int<1>{}, task.outputs, 0};
    arguments.epilogue.ptr_D = static_cast<Output*>(task.y);
    arguments.epilogue.dD = {cute::Int<1>{}, task.outputs, 0};
    Gemm gemm;
    return Gemm::can_implement(arguments) == cutlass::Status::kSuccess &&
           Gemm::get_workspace_size(arguments) <= workspace_bytes &&
           gemm.initialize(arguments, workspace, stream) == cutlass::Status::kSuccess &&
           gemm.run(stream) == cutlass::Status::kSuccess;
  }
};

}  // namespace qrl::probes
