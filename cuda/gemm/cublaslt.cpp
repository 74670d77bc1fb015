#include "cuda/gemm/cublaslt.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <map>
#include <tuple>

#include "base/error.h"
#include "base/log.h"
#include "cuda/runtime/libraries.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what the library asks for on Hopper

#define QRL_CUBLASLT_FUNCTIONS(DO)         \
  DO(cublasLtCreate)                       \
  DO(cublasLtDestroy)                      \
  DO(cublasLtGetStatusString)              \
  DO(cublasLtMatmulDescCreate)             \
  DO(cublasLtMatmulDescDestroy)            \
  DO(cublasLtMatmulDescSetAttribute)       \
  DO(cublasLtMatrixLayoutCreate)           \
  DO(cublasLtMatrixLayoutDestroy)          \
  DO(cublasLtMatmulPreferenceCreate)       \
  DO(cublasLtMatmulPreferenceDestroy)      \
  DO(cublasLtMatmulPreferenceSetAttribute) \
  DO(cublasLtMatmulAlgoGetHeuristic)       \
  DO(cublasLtMatmul)

/// The library's functions, by their own names.
struct Library {
  void* handle = nullptr;
  std::string version, path;
#define QRL_DECLARE(name) decltype(&::name) name = nullptr;
  QRL_CUBLASLT_FUNCTIONS(QRL_DECLARE)
#undef QRL_DECLARE
};

Library load() {
  const CublasLtLibrary found =
      open_cublaslt(cublaslt_places(base::loaded_library_path("libtorch_cpu.so")), CUBLAS_VER_MAJOR);
  base::require(found.report, "rollout.device: cuda");
  Library library{found.handle, found.report.found, found.report.path};
#define QRL_FIND(name)                                                                   \
  library.name = reinterpret_cast<decltype(library.name)>(dlsym(library.handle, #name)); \
  QRL_REQUIRE(library.name != nullptr, "rollout.device: cuda", "a cuBLASLt that has " #name, "one without it");
  QRL_CUBLASLT_FUNCTIONS(QRL_FIND)
#undef QRL_FIND
  base::log_info("cuBLASLt " + library.version + ", " + library.path);
  return library;
}

/// Stays for the process: opening and closing it take longer than many an engine's life.
const Library& the_library() {
  static const Library library = load();
  return library;
}

}  // namespace

struct CublasLt::State {
  const Library& library = the_library();
  cublasLtHandle_t handle = nullptr;
  Memory workspace{kWorkspaceBytes};

  void check(cublasStatus_t status, const char* what) const {
    QRL_INVARIANT(status == CUBLAS_STATUS_SUCCESS, what, "success", library.cublasLtGetStatusString(status));
  }

  /// All that depends on a shape alone.
  struct Plan {
    cublasLtMatmulDesc_t product = nullptr;
    cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
    std::array<cublasLtMatmulHeuristicResult_t, kCublasLtAlgorithms> algorithms{};
    int num_algorithms = 0;
  };
  using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;
  std::map<Shape, Plan> plans;

  const Plan& plan(const GemmTask& task);
  void choose(Plan& plan) const;
};

/// The library's matrices are column-major: yᵀ [out, rows] = W (stored [out, in] by rows, so transposed) · xᵀ.
const CublasLt::State::Plan& CublasLt::State::plan(const GemmTask& task) {
  const MatrixLayout& at = task.w.at;
  const auto [found, is_new] =
      plans.try_emplace({task.num_rows, at.rows, at.width, task.x.stride, task.y_stride, task.y_is_f32});
  Plan& plan = found->second;
  if (!is_new) return plan;
  const auto u64 = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  check(library.cublasLtMatmulDescCreate(&plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
  check(
      library.cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
      "cublasLtMatmulDescSetAttribute");
  check(library.cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof plain),
        "cublasLtMatmulDescSetAttribute");
  check(library.cublasLtMatrixLayoutCreate(&plan.w, CUDA_R_16BF, u64(at.width), u64(at.rows), at.width),
        "cublasLtMatrixLayoutCreate");
  check(library.cublasLtMatrixLayoutCreate(&plan.x, CUDA_R_16BF, u64(at.width), u64(task.num_rows), task.x.stride),
        "cublasLtMatrixLayoutCreate");
  check(library.cublasLtMatrixLayoutCreate(&plan.y, task.y_is_f32 ? CUDA_R_32F : CUDA_R_16BF, u64(at.rows),
                                           u64(task.num_rows), task.y_stride),
        "cublasLtMatrixLayoutCreate");
  choose(plan);
  return plan;
}

void CublasLt::State::choose(Plan& plan) const {
  cublasLtMatmulPreference_t preference = nullptr;
  check(library.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const std::size_t bytes = kWorkspaceBytes;
  check(library.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                     sizeof bytes),
        "cublasLtMatmulPreferenceSetAttribute");
  // Partial sums of a split K are added in fp32: without the mask a bf16 result may be the sum of bf16 parts.
  const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  check(library.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                     &reductions, sizeof reductions),
        "cublasLtMatmulPreferenceSetAttribute");
  const cublasStatus_t status =
      library.cublasLtMatmulAlgoGetHeuristic(handle, plan.product, plan.w, plan.x, plan.y, plan.y, preference,
                                             kCublasLtAlgorithms, plan.algorithms.data(), &plan.num_algorithms);
  check(library.cublasLtMatmulPreferenceDestroy(preference), "cublasLtMatmulPreferenceDestroy");
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  QRL_INVARIANT(plan.num_algorithms > 0, "cublasLtMatmulAlgoGetHeuristic", "an algorithm", "none");
}

CublasLt::CublasLt() : state_(std::make_unique<State>()) {
  state_->check(state_->library.cublasLtCreate(&state_->handle), "cublasLtCreate");
}

CublasLt::~CublasLt() {
  for (const auto& [shape, plan] : state_->plans) {
    (void)state_->library.cublasLtMatmulDescDestroy(plan.product);
    for (const cublasLtMatrixLayout_t layout : {plan.w, plan.x, plan.y})
      (void)state_->library.cublasLtMatrixLayoutDestroy(layout);
  }
  if (state_->handle != nullptr) (void)state_->library.cublasLtDestroy(state_->handle);
}

void CublasLt::multiply(const GemmTask& task, int algorithm, const Stream& stream) {
  QRL_INVARIANT(!task.adds_to_y, "cuBLASLt", "a GEMM that overwrites y: it rounds a product before it adds it to bf16",
                "one that adds");
  const State::Plan& plan = state_->plan(task);
  QRL_INVARIANT(algorithm < plan.num_algorithms, "cuda/gemm/bf16_table.h",
                "an algorithm of the " + std::to_string(plan.num_algorithms) + " that cuBLASLt " + version() + " has",
                "number " + std::to_string(algorithm));
  const cublasLtMatmulHeuristicResult_t& proposed = plan.algorithms[static_cast<std::size_t>(algorithm)];
  state_->check(proposed.state, "cublasLtMatmulAlgoGetHeuristic");
  const float one = 1, zero = 0;
  state_->check(state_->library.cublasLtMatmul(state_->handle, plan.product, &one, task.w.quantized, plan.w,
                                               task.x.quantized, plan.x, &zero, task.y, plan.y, task.y, plan.y,
                                               &proposed.algo, state_->workspace.data(), kWorkspaceBytes,
                                               static_cast<cudaStream_t>(stream.handle())),
                "cublasLtMatmul");
}

int CublasLt::num_algorithms(const GemmTask& task) { return state_->plan(task).num_algorithms; }

std::string CublasLt::version() const { return state_->library.version; }

}  // namespace qrl::cuda::QRL_CUDA_TARGET
