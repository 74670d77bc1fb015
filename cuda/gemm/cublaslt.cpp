#include "cuda/gemm/cublaslt.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include "base/error.h"
#include "base/log.h"
#include "cuda/gemm/plan_cache.h"
#include "cuda/runtime/libraries.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // NVIDIA's advice for Hopper

#define QRL_CUBLASLT_FUNCTIONS(DO)         \
  DO(cublasLtCreate)                       \
  DO(cublasLtDestroy)                      \
  DO(cublasLtGetStatusString)              \
  DO(cublasLtMatmulDescCreate)             \
  DO(cublasLtMatmulDescDestroy)            \
  DO(cublasLtMatmulDescSetAttribute)       \
  DO(cublasLtMatrixLayoutCreate)           \
  DO(cublasLtMatrixLayoutDestroy)          \
  DO(cublasLtMatrixLayoutSetAttribute)     \
  DO(cublasLtMatmulPreferenceCreate)       \
  DO(cublasLtMatmulPreferenceDestroy)      \
  DO(cublasLtMatmulPreferenceSetAttribute) \
  DO(cublasLtMatmulAlgoCheck)              \
  DO(cublasLtMatmulAlgoGetHeuristic)       \
  DO(cublasLtMatmul)

struct Library {
  void* handle = nullptr;
  std::string version, path;
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declared name takes none
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
  QRL_REQUIRE(library.name != nullptr, "rollout.device: cuda", "a cuBLASLt that has " #name, "a cuBLASLt without it");
  QRL_CUBLASLT_FUNCTIONS(QRL_FIND)
#undef QRL_FIND
  base::log_info("cuBLASLt " + library.version + ", " + library.path);
  return library;
}

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

  struct Plan {
    cublasLtMatmulDesc_t product = nullptr;
    cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
    std::int64_t num_rows = 0;  // of the layouts x and y
    cublasLtMatmulHeuristicResult_t proposed{};
    cublasStatus_t refusal = CUBLAS_STATUS_SUCCESS;
  };
  using Plans = PlanCache<Plan>;
  Plans plans, block_scaled_plans, row_scaled_plans;
  struct Scales {
    cublasLtMatmulMatrixScale_t w_mode, x_mode;
    const float *w, *x;
  };

  Plan& plan(const GemmTask& task);
  Plan& plan(Plans& of_kind, const GemmTask& task, const Scales& scales);
  Plan& plan(const BlockScaledTask& task) {
    return plan(block_scaled_plans, task.gemm,
                {CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F, task.w_scales,
                 task.x_scales});
  }
  Plan& row_scaled_plan(const GemmTask& task) {
    constexpr auto kOfEach = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    return plan(row_scaled_plans, task, {kOfEach, kOfEach, task.w.scales, task.x.scales});
  }
  std::string refusal_of(const Plan& plan) const {
    const bool is_refused = plan.refusal != CUBLAS_STATUS_SUCCESS;
    const cublasStatus_t status = is_refused ? plan.refusal : plan.proposed.state;
    return status == CUBLAS_STATUS_SUCCESS ? "" : library.cublasLtGetStatusString(status);
  }
  /// Returns the kind's plan for the task's rows. make(rows) makes one.
  template <class Make>
  Plan& find(Plans& of_kind, const GemmTask& task, const Make& make) const {
    return of_kind.find(shape_of(task), task.num_rows, make,
                        [&](Plan& plan, std::int64_t num_rows) { return fits(plan, num_rows); });
  }
  bool fits(Plan& plan, std::int64_t num_rows) const;
  Plan describe(const GemmTask& task, std::int64_t num_rows, cudaDataType_t elements) const;
  void set_rows(Plan& plan, std::int64_t num_rows) const;
  void choose(Plan& plan) const;
  void launch(Plan& plan, const GemmTask& task, const Stream& stream) const;
  template <class Value>
  void set(const Plan& plan, cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
    check(library.cublasLtMatmulDescSetAttribute(plan.product, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }
  static PlannedShape shape_of(const GemmTask& task) {
    return {task.w.at.rows, task.w.at.width, task.x.stride, task.y_stride, task.y_is_f32};
  }
};

/// Describes the GEMM to the column-major library: yᵀ [out, rows] = W · xᵀ. Row-major W is column-major Wᵀ, hence
/// CUBLAS_OP_T.
CublasLt::State::Plan CublasLt::State::describe(const GemmTask& task, std::int64_t num_rows,
                                                cudaDataType_t elements) const {
  const MatrixLayout& at = task.w.at;
  Plan plan;
  plan.num_rows = num_rows;
  const auto u64 = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  check(library.cublasLtMatmulDescCreate(&plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  set(plan, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(plan, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  check(library.cublasLtMatrixLayoutCreate(&plan.w, elements, u64(at.width), u64(at.rows), at.width),
        "cublasLtMatrixLayoutCreate");
  check(library.cublasLtMatrixLayoutCreate(&plan.x, elements, u64(at.width), u64(num_rows), task.x.stride),
        "cublasLtMatrixLayoutCreate");
  check(library.cublasLtMatrixLayoutCreate(&plan.y, task.y_is_f32 ? CUDA_R_32F : CUDA_R_16BF, u64(at.rows),
                                           u64(num_rows), task.y_stride),
        "cublasLtMatrixLayoutCreate");
  return plan;
}

void CublasLt::State::set_rows(Plan& plan, std::int64_t num_rows) const {
  if (plan.num_rows == num_rows) return;
  const auto columns = static_cast<std::uint64_t>(num_rows);
  for (const cublasLtMatrixLayout_t layout : {plan.x, plan.y}) {
    check(library.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &columns, sizeof columns),
          "cublasLtMatrixLayoutSetAttribute");
  }
  plan.num_rows = num_rows;
}

/// Returns whether the plan's algorithm computes num_rows rows. A refused plan counts as fitting: the library refuses
/// all its rows.
bool CublasLt::State::fits(Plan& plan, std::int64_t num_rows) const {
  if (!refusal_of(plan).empty()) return true;
  set_rows(plan, num_rows);
  cublasLtMatmulHeuristicResult_t result{};
  return library.cublasLtMatmulAlgoCheck(handle, plan.product, plan.w, plan.x, plan.y, plan.y, &plan.proposed.algo,
                                         &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= kWorkspaceBytes;
}

CublasLt::State::Plan& CublasLt::State::plan(const GemmTask& task) {
  return find(plans, task, [&](std::int64_t num_rows) {
    Plan plan = describe(task, num_rows, CUDA_R_16BF);
    choose(plan);
    check(plan.refusal, "cublasLtMatmulAlgoGetHeuristic");
    return plan;
  });
}

CublasLt::State::Plan& CublasLt::State::plan(Plans& of_kind, const GemmTask& task, const Scales& scales) {
  const auto set_scales = [&](const Plan& plan) {
    set(plan, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales.w);
    set(plan, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales.x);
  };
  Plan& found = find(of_kind, task, [&](std::int64_t num_rows) {
    Plan plan = describe(task, num_rows, CUDA_R_8F_E4M3);
    set_scales(plan);
    const auto set_mode = [&](cublasLtMatmulDescAttributes_t attribute, cublasLtMatmulMatrixScale_t mode) {
      const cublasStatus_t status = library.cublasLtMatmulDescSetAttribute(plan.product, attribute, &mode, sizeof mode);
      if (plan.refusal == CUBLAS_STATUS_SUCCESS)
        plan.refusal = status;  // an error if the library is older than the mode
    };
    set_mode(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, scales.w_mode);
    set_mode(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, scales.x_mode);
    if (plan.refusal == CUBLAS_STATUS_SUCCESS) choose(plan);
    return plan;
  });
  set_scales(found);
  return found;
}

void CublasLt::State::choose(Plan& plan) const {
  cublasLtMatmulPreference_t preference = nullptr;
  check(library.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const std::size_t bytes = kWorkspaceBytes;
  check(library.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                     sizeof bytes),
        "cublasLtMatmulPreferenceSetAttribute");
  // Allows only fp32 sums of a split K; by default, the library may add bf16 partial sums.
  const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  check(library.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                     &reductions, sizeof reductions),
        "cublasLtMatmulPreferenceSetAttribute");
  int num_proposed = 0;
  const cublasStatus_t status = library.cublasLtMatmulAlgoGetHeuristic(
      handle, plan.product, plan.w, plan.x, plan.y, plan.y, preference, 1, &plan.proposed, &num_proposed);
  check(library.cublasLtMatmulPreferenceDestroy(preference), "cublasLtMatmulPreferenceDestroy");
  plan.refusal = status == CUBLAS_STATUS_SUCCESS && num_proposed == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : status;
}

void CublasLt::State::launch(Plan& plan, const GemmTask& task, const Stream& stream) const {
  check(plan.proposed.state, "cublasLtMatmulAlgoGetHeuristic");
  set_rows(plan, task.num_rows);
  const float one = 1, zero = 0;
  check(library.cublasLtMatmul(handle, plan.product, &one, task.w.quantized, plan.w, task.x.quantized, plan.x, &zero,
                               task.y, plan.y, task.y, plan.y, &plan.proposed.algo, workspace.data(), kWorkspaceBytes,
                               static_cast<cudaStream_t>(stream.handle())),
        "cublasLtMatmul");
}

CublasLt::CublasLt() : state_(std::make_unique<State>()) {
  state_->check(state_->library.cublasLtCreate(&state_->handle), "cublasLtCreate");
}

CublasLt::~CublasLt() {
  for (State::Plans* plans : {&state_->plans, &state_->block_scaled_plans, &state_->row_scaled_plans}) {
    plans->visit([this](const State::Plan& plan) {
      (void)state_->library.cublasLtMatmulDescDestroy(plan.product);
      for (const cublasLtMatrixLayout_t layout : {plan.w, plan.x, plan.y})
        (void)state_->library.cublasLtMatrixLayoutDestroy(layout);
    });
  }
  if (state_->handle != nullptr) (void)state_->library.cublasLtDestroy(state_->handle);
}

std::string CublasLt::refusal_of(const BlockScaledTask& task) { return state_->refusal_of(state_->plan(task)); }

std::string CublasLt::multiply_row_scaled(const GemmTask& task, const Stream& stream) {
  State::Plan& plan = state_->row_scaled_plan(task);
  std::string refusal = state_->refusal_of(plan);
  if (refusal.empty()) state_->launch(plan, task, stream);
  return refusal;
}

void CublasLt::multiply(const GemmTask& task, const Stream& stream) {
  QRL_INVARIANT(!task.adds_to_y, "cuBLASLt", "a GEMM that overwrites y: it rounds a product before it adds it to bf16",
                "a GEMM that adds to y");
  state_->launch(state_->plan(task), task, stream);
}

std::string CublasLt::multiply(const BlockScaledTask& task, const Stream& stream) {
  State::Plan& plan = state_->plan(task);
  std::string refusal = state_->refusal_of(plan);
  if (refusal.empty()) state_->launch(plan, task.gemm, stream);
  return refusal;
}

std::string CublasLt::version() const { return state_->library.version; }

}  // namespace qrl::cuda::QRL_CUDA_TARGET
