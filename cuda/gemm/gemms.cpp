#include "cuda/gemm/gemms.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "base/log.h"
#include "cuda/gemm/block_scales.h"
#include "cuda/gemm/cublaslt.h"
#include "cuda/gemm/cutlass_gemms.h"
#include "cuda/gemm/dequantized_gemms.h"
#include "cuda/gemm/gemm_sweep.h"
#include "cuda/gemm/plan_cache.h"
#include "cuda/gemm/streamed_gemm.h"
#include "cuda/runtime/check.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

int attribute(cudaDeviceAttr which, const DeviceFacts& device) {
  int value = 0;
  QRL_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device.number));
  return value;
}

/// Measures the shortest time of a few launches. Before each launch, a write of twice L2's size evicts the weights from
/// L2.
class ColdTimer {
 public:
  explicit ColdTimer(std::size_t l2_bytes) : swept_(2 * l2_bytes) {
    QRL_CUDA_CHECK(cudaEventCreate(&begin_));
    QRL_CUDA_CHECK(cudaEventCreate(&end_));
  }
  ~ColdTimer() {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
  }
  ColdTimer(const ColdTimer&) = delete;
  ColdTimer& operator=(const ColdTimer&) = delete;

  double seconds(const std::function<void()>& launch, const Stream& stream) const {
    constexpr int kLaunches = 4;  // the first launch is not timed: it loads the kernel
    const auto cuda_stream = static_cast<cudaStream_t>(stream.handle());
    float best_ms = 0;
    for (int i = 0; i < kLaunches; ++i) {
      fill_zero(swept_.data(), swept_.num_bytes(), stream);
      QRL_CUDA_CHECK(cudaEventRecord(begin_, cuda_stream));
      launch();
      QRL_CUDA_CHECK(cudaEventRecord(end_, cuda_stream));
      QRL_CUDA_CHECK(cudaEventSynchronize(end_));
      float taken_ms = 0;
      QRL_CUDA_CHECK(cudaEventElapsedTime(&taken_ms, begin_, end_));
      if (i == 1 || (i > 1 && taken_ms < best_ms)) best_ms = taken_ms;
    }
    return static_cast<double>(best_ms) * 1e-3;
  }

 private:
  Memory swept_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

class LibraryGemms final : public Gemms {
 public:
  LibraryGemms(const DeviceFacts& device, bool row_only_sums)
      : is_hopper_(runs_hopper_code(device)),
        row_only_sums_(row_only_sums),
        takes_block_scales_(is_hopper_ && !row_only_sums_ && may_take_block_scales()),
        limits_{static_cast<std::int64_t>(device.shared_bytes), attribute(cudaDevAttrMultiProcessorCount, device)},
        timer_(static_cast<std::size_t>(attribute(cudaDevAttrL2CacheSize, device))),
        sweep_(gemm_rules(device, row_only_sums, takes_block_scales_), limits_,
               [this](const auto& launch, const Stream& stream) { return timer_.seconds(launch, stream); }) {
    if (is_hopper_) workspace_ = Memory(std::size_t{1} << 20);
    place_ = {workspace_.data(), workspace_.num_bytes(), attribute(cudaDevAttrMultiProcessorCount, device)};
  }

  void multiply(const GemmTask& task, const Stream& stream) override {
    const auto make_so = [&](const GemmChoice& choice) { make(task, choice, stream); };
    make_so(sweep_.choose(task, make_so, stream));
  }

  void reserve(const DeviceMatrix& w, std::int64_t num_rows) override {
    const GemmKernel kernel = choose_gemm(w.format, num_rows, false, is_hopper_, row_only_sums_,
                                          takes_block_scales_ && w.at.has_whole_blocks);
    if (kernel == GemmKernel::dequantized) dequantized_.reserve(w);
    if (kernel != GemmKernel::block_scaled) return;
    block_scaled_.reserve(w);
    if (refuses_some_rows(w, num_rows)) dequantized_.reserve(w);
  }

  void set_recorded(bool is_recorded) override {
    dequantized_.set_fixed(is_recorded);
    block_scaled_.set_fixed(is_recorded);
  }

  std::string describe() const override {
    if (row_only_sums_) return is_hopper_ ? "int8 by CUTLASS or streamed, all else streamed" : "streamed";
    std::string bf16 = "bf16 by cuBLASLt " + cublaslt_.version();
    bf16 += "; int4 of " + std::to_string(dequantized_rows(quant::Format::int4)) +
            " rows and more, and fp8 (block128) of " + std::to_string(dequantized_rows(quant::Format::fp8_block128)) +
            ", dequantized, also by cuBLASLt";
    if (takes_block_scales_) {
      bf16 += "; fp8 (block128) of more than " + std::to_string(kStreamedFp8Rows) +
              " rows by its block scales where tensors have whole blocks";
    }
    if (is_hopper_) {
      bf16 += "; fp8 (tensor, channel_token) of more than " + std::to_string(kStreamedFp8Rows) +
              " rows by CUTLASS, of more than " + std::to_string(kCutlassFp8Rows) + " by cuBLASLt's row scales";
      bf16 += "; int8 by CUTLASS or streamed";
    }
    return bf16 + "; all else streamed";
  }

 private:
  void make(const GemmTask& task, const GemmChoice& choice, const Stream& stream) {
    switch (choice.kernel) {
      case GemmKernel::cublaslt:
        return cublaslt_.multiply(task, stream);
      case GemmKernel::block_scaled:
        return make_block_scaled(task, stream);
      case GemmKernel::row_scaled:
        return make_row_scaled(task, stream);
      case GemmKernel::cutlass_int8:
        return cutlass_int8(task, place_, stream);
      case GemmKernel::cutlass_fp8:
        return cutlass_fp8(task, place_, stream);
      case GemmKernel::streamed:
        return streamed_.multiply(task, choice.plan, stream);
      case GemmKernel::dequantized:
        return dequantized_.multiply(
            task, [&](const GemmTask& bf16) { cublaslt_.multiply(bf16, stream); }, stream);
    }
  }

  void make_block_scaled(const GemmTask& task, const Stream& stream) {
    const auto by_library = [&](const BlockScaledTask& scaled) {
      const std::string refusal = cublaslt_.multiply(scaled, stream);
      if (!refusal.empty()) log_refusal(refusal, scaled.gemm.num_rows, scaled.gemm.w.at);
      return refusal.empty();
    };
    const auto by_other = [&](const GemmTask& rows, GemmKernel kernel) {
      make(rows, {kernel, plan_stream(rows.w.format, rows.w.at, rows.num_rows, limits_)}, stream);
    };
    block_scaled_.multiply(task, by_library, by_other, stream);
  }
  void make_row_scaled(const GemmTask& task, const Stream& stream) {
    const std::string refusal = cublaslt_.multiply_row_scaled(task, stream);
    if (refusal.empty()) return;
    log_refusal(refusal, task.num_rows, task.w.at, "row scales", "multiplied by CUTLASS");
    cutlass_fp8(task, place_, stream);
  }
  /// Logs the first refusal of each kind of scales.
  void log_refusal(const std::string& why, std::int64_t num_rows, const MatrixLayout& at,
                   const char* what = "block scales", const char* instead = "streamed or dequantized") const {
    base::log_once(std::string("cuBLASLt refuses ") + what,
                   "cuBLASLt " + cublaslt_.version() + " refuses " + what + " (" + why + ") for " +
                       std::to_string(num_rows) + " rows of [" + std::to_string(at.rows) + ", " +
                       std::to_string(at.width) + "]: such layers are " + instead);
  }
  /// Returns whether the library refuses block scales for any number of rows up to num_rows for which the matrix would
  /// then be dequantized. Recorded ticks may not allocate that memory.
  bool refuses_some_rows(const DeviceMatrix& w, std::int64_t num_rows) {
    const std::int64_t width = w.at.width, most = std::min(num_rows, kDequantizedRowsAtOnce);
    const Memory x_scales(static_cast<std::size_t>(planned_rows(most) * width / kInputChunk) * sizeof(float));
    for (std::int64_t rows = dequantized_rows(w.format); rows <= planned_rows(most); rows += kPlanRows) {
      const QuantizedRows x{quant::Element::fp8_e4m3, nullptr, nullptr, width, w.at.in, kInputChunk};
      const BlockScaledTask task{
          {x, planned_rows(rows), w, nullptr, w.at.rows, false}, x_scales.as<float>(), w.block_scales};
      if (!cublaslt_.refusal_of(task).empty()) return true;
    }
    return false;
  }
  bool may_take_block_scales() {
    constexpr std::int64_t kRows = 64, kWidth = 4096;
    const MatrixLayout at = matrix_layout(quant::Format::fp8_block128, kWidth, kWidth);
    const Memory scales(static_cast<std::size_t>(kRows * kWidth));
    const QuantizedRows x{quant::Element::fp8_e4m3, nullptr, nullptr, kWidth, kWidth, kInputChunk};
    const std::string refusal =
        cublaslt_.refusal_of({{x, kRows, {quant::Format::fp8_block128, at, nullptr, nullptr}, nullptr, kWidth, false},
                              scales.as<float>(),
                              scales.as<float>()});
    if (!refusal.empty()) log_refusal(refusal, kRows, at);
    return refusal.empty();
  }

  bool is_hopper_, row_only_sums_;
  StreamedGemms streamed_;
  CublasLt cublaslt_;
  bool takes_block_scales_;
  DequantizedGemms dequantized_;
  BlockScaledGemms block_scaled_;
  DeviceLimits limits_;
  Memory workspace_;
  CutlassPlace place_;
  ColdTimer timer_;
  GemmSweep sweep_;
};

}  // namespace

std::unique_ptr<Gemms> make_gemms(const DeviceFacts& device, bool row_only_sums) {
  return std::make_unique<LibraryGemms>(device, row_only_sums);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
