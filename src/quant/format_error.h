#pragma once

#include "quant/format.h"

namespace qrl::quant {

/// Accumulates format_error over pieces of a tensor in order. The result equals that of the whole bit for bit.
class FormatErrorSums {
 public:
  void add(std::span<const float> original, std::span<const float> dequantized);
  FormatError error() const;

 private:
  double max_abs_ = 0, signal_ = 0, noise_ = 0, power_ = 0, product_ = 0;
  std::size_t count_ = 0;
};

}  // namespace qrl::quant
