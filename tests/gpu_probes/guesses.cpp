// Times each algorithm that cuBLASLt proposes for the e4m3 GEMMs of a layer of 8B.
#include "tests/gpu_probes/guesses.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <array>
#include <limits>

#include "base/error.h"
#include "base/shared_library.h"
#include "cuda/runtime/libraries.h"

namespace qrl::probes {

namespace {

/// Holds the library's functions, loaded like the engine's.
struct Library {
  explicit Library(void* opened) : handle(opened) {}
  template <class Function>
  Function* find(const char* name) const {
    auto* function = reinterpret_cast<Function*>(dlsym(handle, name));
    QRL_INVARIANT(function != nullptr, "cuBLASLt", name, "a library without it");
    return function;
  }
  void* handle;
};
#define QRL_CUBLASLT(name) library.find<decltype(::name)>(#name)

void check(cublasStatus_t status, const char* what) {
  QRL_INVARIANT(status == CUBLAS_STATUS_SUCCESS, what, "success", std::to_string(static_cast<int>(status)));
}

}  // namespace

std::vector<double> guesses_us(const ProbeGemm& task, const float* one, void* workspace, std::size_t workspace_bytes,
                               const std::function<double(const std::function<void()>&)>& time_us) {
  const cuda::device::CublasLtLibrary opened = cuda::device::open_cublaslt(
      cuda::device::cublaslt_places(base::loaded_library_path("libtorch_cpu.so")), CUBLAS_VER_MAJOR);
  base::require(opened.report, "gpu_probes guesses");
  const Library library(opened.handle);
  cublasLtHandle_t handle = nullptr;
  check(QRL_CUBLASLT(cublasLtCreate)(&handle), "cublasLtCreate");
  cublasLtMatmulDesc_t product = nullptr;
  check(QRL_CUBLASLT(cublasLtMatmulDescCreate)(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(QRL_CUBLASLT(cublasLtMatmulDescSetAttribute)(product, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, one);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, one);
  const auto u64 = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const auto layout = [&](cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
    cublasLtMatrixLayout_t made = nullptr;
    check(QRL_CUBLASLT(cublasLtMatrixLayoutCreate)(&made, type, u64(rows), u64(columns), rows),
          "cublasLtMatrixLayoutCreate");
    return made;
  };
  const cublasLtMatrixLayout_t w = layout(CUDA_R_8F_E4M3, task.inputs, task.outputs),
                               x = layout(CUDA_R_8F_E4M3, task.inputs, task.num_rows),
                               y = layout(CUDA_R_16BF, task.outputs, task.num_rows);
  cublasLtMatmulPreference_t preference = nullptr;
  check(QRL_CUBLASLT(cublasLtMatmulPreferenceCreate)(&preference), "cublasLtMatmulPreferenceCreate");
  check(QRL_CUBLASLT(cublasLtMatmulPreferenceSetAttribute)(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                           &workspace_bytes, sizeof workspace_bytes),
        "cublasLtMatmulPreferenceSetAttribute");
  std::array<cublasLtMatmulHeuristicResult_t, 8> proposed{};
  int count = 0;
  check(QRL_CUBLASLT(cublasLtMatmulAlgoGetHeuristic)(handle, product, w, x, y, y, preference,
                                                     static_cast<int>(proposed.size()), proposed.data(), &count),
        "cublasLtMatmulAlgoGetHeuristic");
  std::vector<double> times;
  const float alpha = task.alpha, zero = 0;
  for (int i = 0; i < count; ++i) {
    bool is_taken = true;
    const double us = time_us([&] {
      const cublasStatus_t status = QRL_CUBLASLT(cublasLtMatmul)(
          handle, product, &alpha, task.weights, w, task.rows, x, &zero, task.y, y, task.y, y,
          &proposed[static_cast<std::size_t>(i)].algo, workspace, workspace_bytes, nullptr);
      is_taken = is_taken && status == CUBLAS_STATUS_SUCCESS;
    });
    times.push_back(is_taken ? us : std::numeric_limits<double>::quiet_NaN());
  }
  for (const cublasLtMatrixLayout_t each : {w, x, y}) (void)QRL_CUBLASLT(cublasLtMatrixLayoutDestroy)(each);
  (void)QRL_CUBLASLT(cublasLtMatmulPreferenceDestroy)(preference);
  (void)QRL_CUBLASLT(cublasLtMatmulDescDestroy)(product);
  (void)QRL_CUBLASLT(cublasLtDestroy)(handle);
  return times;
}

}  // namespace qrl::probes
