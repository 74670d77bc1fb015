#include "products.h"

#include <cuda_runtime_api.h>

#include "check.h"
#include "cublaslt.h"
#include "cutlass_products.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

int num_multiprocessors(const DeviceFacts& device) {
  int count = 0;
  QRL_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device.number));
  return count;
}

class LibraryProducts final : public Products {
 public:
  LibraryProducts(const DeviceFacts& device, bool row_only_sums)
      : is_hopper_(device.major == 9 && device.minor == 0),
        row_only_sums_(row_only_sums),
        streamed_({static_cast<std::int64_t>(device.shared_bytes), num_multiprocessors(device)}) {
    if (is_hopper_) workspace_ = Memory(std::size_t{1} << 20);
    place_ = {workspace_.data(), workspace_.num_bytes(), num_multiprocessors(device)};
  }

  void multiply(const ProductTask& task, const Stream& stream) override {
    switch (choose_product(task.w.format, task.num_rows, task.y_is_f32, is_hopper_, row_only_sums_)) {
      case ProductKernel::cublaslt:
        return cublaslt_.multiply(task, stream);
      case ProductKernel::cutlass_int8:
        return cutlass_int8(task, place_, stream);
      case ProductKernel::cutlass_fp8:
        return cutlass_fp8(task, place_, stream);
      case ProductKernel::streamed:
        return streamed_.multiply(task, stream);
    }
  }

  std::string describe() const override {
    if (row_only_sums_) {
      return is_hopper_
                 ? "int8 of more than " + std::to_string(kStreamedInt8Rows) + " rows by CUTLASS, all else streamed"
                 : "streamed";
    }
    const std::string bf16 = "bf16 by cuBLASLt " + cublaslt_.version();
    return is_hopper_ ? bf16 + ", fp8 (tensor, channel_token) and int8 of more than " +
                            std::to_string(kStreamedInt8Rows) + " rows by CUTLASS, all else streamed"
                      : bf16 + ", other formats streamed";
  }

 private:
  bool is_hopper_, row_only_sums_;
  StreamedProducts streamed_;
  CublasLt cublaslt_;
  Memory workspace_;
  CutlassPlace place_;
};

}  // namespace

std::unique_ptr<Products> make_products(const DeviceFacts& device, bool row_only_sums) {
  return std::make_unique<LibraryProducts>(device, row_only_sums);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
