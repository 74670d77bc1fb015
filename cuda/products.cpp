#include "products.h"

#include <cuda_runtime_api.h>

#include "check.h"
#include "cublaslt.h"
#include "cutlass_products.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

/// cuBLASLt for bf16; CUTLASS for int8 and e4m3 with a scale a channel, on Hopper; the plain kernel for the others.
class LibraryProducts final : public Products {
 public:
  explicit LibraryProducts(const DeviceFacts& device) : is_hopper_(device.major == 9 && device.minor == 0) {
    QRL_CUDA_CHECK(cudaDeviceGetAttribute(&place_.num_multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    if (is_hopper_) workspace_ = Memory(std::size_t{1} << 20);
    place_.workspace = workspace_.data();
    place_.workspace_bytes = workspace_.num_bytes();
  }

  void multiply(const ProductTask& task, const Stream& stream) override {
    using quant::Format;
    const Format format = task.w.format;
    const bool one_scale = format == Format::fp8_tensor || format == Format::fp8_channel;
    if (format == Format::bf16) cublaslt_.multiply(task, stream);
    else if (task.y_is_f32) plain_product(task, stream);
    else if (is_hopper_ && format == Format::int8) cutlass_int8(task, place_, stream);
    else if (is_hopper_ && one_scale) cutlass_fp8(task, place_, stream);
    else plain_product(task, stream);
  }

  std::string describe() const override {
    const std::string bf16 = "bf16 by cuBLASLt " + cublaslt_.version();
    return is_hopper_ ? bf16 + ", int8 and fp8 (tensor, channel_token) by CUTLASS, other formats plain"
                      : bf16 + ", other formats plain";
  }

 private:
  bool is_hopper_;
  CublasLt cublaslt_;
  Memory workspace_;
  CutlassPlace place_;
};

}  // namespace

std::unique_ptr<Products> make_products(const DeviceFacts& device) { return std::make_unique<LibraryProducts>(device); }

}  // namespace qrl::cuda::QRL_CUDA_TARGET
