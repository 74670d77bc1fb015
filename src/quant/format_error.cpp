#include "quant/format_error.h"

#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"

namespace qrl::quant {

void FormatErrorSums::add(std::span<const float> original, std::span<const float> dequantized) {
  QRL_INVARIANT(original.size() == dequantized.size(), "format_error", std::to_string(original.size()) + " elements",
                std::to_string(dequantized.size()));
  for (std::size_t i = 0; i < original.size(); ++i) {
    const double a = original[i], b = dequantized[i], difference = b - a;
    // Keeps a NaN difference.
    if (!(std::fabs(difference) <= max_abs_) && !std::isnan(max_abs_)) max_abs_ = std::fabs(difference);
    signal_ += a * a;
    noise_ += difference * difference;
    power_ += b * b;
    product_ += a * b;
  }
  count_ += original.size();
}

FormatError FormatErrorSums::error() const {
  FormatError error;
  error.max_abs = max_abs_;
  if (count_ > 0) error.rms = std::sqrt(noise_ / static_cast<double>(count_));
  error.snr_db = noise_ == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal_ / noise_);
  if (signal_ == 0 && power_ == 0) {
    error.cosine = 1;
  } else if (signal_ == 0 || power_ == 0) {
    error.cosine = 0;
  } else {
    error.cosine = product_ / (std::sqrt(signal_) * std::sqrt(power_));
  }
  return error;
}

FormatError format_error(std::span<const float> original, std::span<const float> dequantized) {
  FormatErrorSums sums;
  sums.add(original, dequantized);
  return sums.error();
}

}  // namespace qrl::quant
