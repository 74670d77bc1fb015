// Owns which kernel does a matrix product. Knows nothing of layers.
#pragma once

#include <memory>
#include <string>

#include "cuda/runtime/kernels.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

class Products {
 public:
  Products() = default;
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  virtual ~Products() = default;

  /// As kernels.h's plain_product, by one of the kernels that product_plan.h's product_choices names, whichever took
  /// the least time (product_sweep.h); sums may run in another order, and accumulate as a library does: int32; fp32; of
  /// fp8 `tensor` and `channel_token` on Hopper, where rows are more than kStreamedFp8Rows, the matrix unit's own,
  /// which keeps some 13 bits behind the point of its largest term for the 128 inputs that it adds up before fp32 takes
  /// over; of int4 and fp8_block128 of kDequantizedRows rows and more, of operands rounded to bf16
  /// (dequantized_products.h).
  virtual void multiply(const ProductTask& task, const Stream& stream) = 0;
  /// Makes the memory that products of num_rows rows (as padded_rows has them) with the matrix need. `multiply` makes
  /// it otherwise, which it must not while a graph is recorded.
  virtual void reserve(const DeviceMatrix& w, std::int64_t num_rows) = 0;
  virtual std::string describe() const = 0;  ///< which format runs where, for the log
};

/// What streamed_product needs besides its operands.
class StreamedProducts {
 public:
  StreamedProducts()
      : partials_(static_cast<std::size_t>(kStreamPartialBytes)),
        counters_(Memory::zeroed(static_cast<std::size_t>(kStreamCounters) * sizeof(std::uint32_t))) {}
  void multiply(const ProductTask& task, const StreamPlan& plan, const Stream& stream) const {
    streamed_product(task, plan, {partials_.as<std::uint32_t>(), counters_.as<std::uint32_t>()}, stream);
  }

 private:
  Memory partials_;
  Memory counters_;  // zero between two products
};

/// row_only_sums: choose_product's. Throws an input error when a library that it needs is not there.
std::unique_ptr<Products> make_products(const DeviceFacts& device, bool row_only_sums = false);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
