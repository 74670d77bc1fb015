#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "cuda/bench/bench_kernels.h"
#include "cuda/bench/best_of_rounds.h"
#include "cuda/bench/device_speed.h"
#include "cuda/gemm/bf16_table.h"
#include "cuda/gemm/cublaslt.h"
#include "cuda/gemm/gemms.h"
#include "cuda/runtime/check.h"
#include "cuda/runtime/kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

/// Normal values in bf16.
Memory normal_memory(std::int64_t num_bytes, const Stream& stream) {
  Memory memory(static_cast<std::size_t>(num_bytes));
  fill_normal({quant::Element::bf16, 1, 1, num_bytes / 2, memory.data()}, stream);
  return memory;
}

/// One matrix in several copies that no cache holds, and memory for a GEMM with it.
struct Operands {
  Operands(const Bf16CandidateTask& task, const Bf16CandidateTask::Matrix& matrix, const Stream& stream)
      : at(matrix_layout(quant::Format::bf16, matrix.out, matrix.in)),
        num_copies(std::max<std::int64_t>(1, task.pool_bytes / at.num_bytes())),
        y_is_f32(matrix.y_is_f32),
        w(normal_memory(num_copies * at.num_bytes(), stream)),
        x(normal_memory(kBf16TableRows * at.width * 2, stream)),
        y(static_cast<std::size_t>(kBf16TableRows * at.rows) * sizeof(float)) {}

  GemmTask task(std::int64_t num_rows, std::int64_t copy) const {
    const std::int64_t first = copy % num_copies * at.num_bytes();
    return {{quant::Element::bf16, x.data(), nullptr, at.width, at.in, at.in},
            num_rows,
            {quant::Format::bf16, at, w.as<std::uint8_t>() + first, nullptr},
            y.data(),
            at.rows,
            y_is_f32};
  }

  /// Returns the seconds of a GEMM, of many one after another.
  template <class Multiply>
  double gemm_s(std::int64_t num_rows, const Stream& stream, Multiply multiply) const {
    return best_s(std::max(num_copies, kFewestCalls), stream, [&](std::int64_t i) { multiply(task(num_rows, i)); });
  }

  MatrixLayout at;
  std::int64_t num_copies;
  bool y_is_f32;
  Memory w, x, y;
};

DeviceLimits limits_of(const DeviceFacts& device) {
  int num_multiprocessors = 0;
  QRL_CUDA_CHECK(cudaDeviceGetAttribute(&num_multiprocessors, cudaDevAttrMultiProcessorCount, device.number));
  return {static_cast<std::int64_t>(device.shared_bytes), num_multiprocessors};
}

}  // namespace

Bf16Candidates measure_bf16_candidate_speed(const Bf16CandidateTask& task) {
  const DeviceFacts device = use_device(task.device_number);
  const DeviceLimits limits = limits_of(device);
  const Stream stream;
  CublasLt library;
  const StreamedGemms streamed;
  Bf16Candidates candidates;
  std::vector<Bf16Row> table;
  for (const Bf16CandidateTask::Matrix& matrix : task.matrices) {
    const Operands operands(task, matrix, stream);
    const MatrixLayout& at = operands.at;
    for (const std::int64_t num_rows : {kBf16TableRows / 2, kBf16TableRows}) {
      Bf16Candidate& of =
          candidates.measured.emplace_back(Bf16Candidate{at.rows, at.width, num_rows, matrix.y_is_f32, 0, {}});
      // The plans of a streamed GEMM have the same bits, so time chooses between them, as in the program.
      for (const GemmChoice& way :
           gemm_choices(quant::Format::bf16, at, num_rows, matrix.y_is_f32, {true, true}, limits)) {
        const double taken_s =
            operands.gemm_s(num_rows, stream, [&](const GemmTask& gemm) { streamed.multiply(gemm, way.plan, stream); });
        if (of.streamed_s == 0 || taken_s < of.streamed_s) of.streamed_s = taken_s;
      }
      for (int n = 0; n < library.num_algorithms(operands.task(num_rows, 0)); ++n) {
        of.cublaslt_s.push_back(
            operands.gemm_s(num_rows, stream, [&](const GemmTask& gemm) { library.multiply(gemm, n, stream); }));
      }
      const int way = fastest_way(of.streamed_s, of.cublaslt_s);
      if (way != 0) table.push_back({at.rows, at.width, num_rows, matrix.y_is_f32, way});
    }
  }
  candidates.library = library.version();
  candidates.table = bf16_table_text(candidates.library, table);
  return candidates;
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
