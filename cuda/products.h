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

  /// As kernels.h's plain_product; sums may run in another order, and accumulate as the library does (fp32, int32).
  virtual void multiply(const ProductTask& task, const Stream& stream) = 0;
  virtual std::string describe() const = 0;  ///< which format runs where, for the log
};

/// Throws an input error when a library that it needs is not there.
std::unique_ptr<Products> make_products(const DeviceFacts& device);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
