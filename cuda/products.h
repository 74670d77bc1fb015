// Owns which kernel does a matrix product. Knows nothing of layers.
#pragma once

#include <memory>
#include <string>

#include "kernels.h"
#include "runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

class Products {
 public:
  Products() = default;
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  virtual ~Products() = default;

  /// As kernels.h's plain_product, by the kernel that product_plan.h's choose_product names; sums may run in another
  /// order, and accumulate as a library does (fp32, int32).
  virtual void multiply(const ProductTask& task, const Stream& stream) = 0;
  virtual std::string describe() const = 0;  ///< which format runs where, for the log
};

/// streamed_product with plans and memory of its own.
class StreamedProducts {
 public:
  explicit StreamedProducts(const DeviceLimits& limits)
      : limits_(limits),
        partials_(static_cast<std::size_t>(kStreamPartialBytes)),
        counters_(static_cast<std::size_t>(kStreamCounters) * sizeof(std::uint32_t)) {}
  void multiply(const ProductTask& task, const Stream& stream) const {
    const StreamPlan plan = plan_stream(task.w.format, task.w.at, task.num_rows, limits_);
    streamed_product(task, plan, {partials_.as<std::uint32_t>(), counters_.as<std::uint32_t>()}, stream);
  }

 private:
  DeviceLimits limits_;
  Memory partials_, counters_;
};

/// row_only_sums: choose_product's. Throws an input error when a library that it needs is not there.
std::unique_ptr<Products> make_products(const DeviceFacts& device, bool row_only_sums = false);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
