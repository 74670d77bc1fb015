// Owns the choice of an int4 group's scale by least squares (ScaleRule::least_squares), for the host and for kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bf16.h"

namespace qrl::quant {

/// Number of candidate scales of a group: amax/7 with levels −7 … 7, then amax/8 and −amax/8 with levels −8 … 7. No
/// candidate clips the largest value by more than one level: smaller scales lower the squared error further, but move a
/// model's log-probs more (docs/science/int4-groups.md).
inline constexpr int kInt4Candidates = 3;

/// Returns the lowest level of a candidate.
constexpr float lowest_level(int candidate) { return candidate == 0 ? -7.0F : -8.0F; }

/// Holds sums over a group of at most 128 weights, for each candidate. They are exact, so their order does not matter.
///
/// A level is the weight times the candidate's inverse in fp32, rounded and clamped. A fixed-point weight is the weight
/// times Int4Scales::grid in fp32, rounded.
struct Int4Sums {
  std::array<std::int32_t, kInt4Candidates> squares{};   ///< Σ level²
  std::array<std::int32_t, kInt4Candidates> products{};  ///< Σ level · fixed-point weight, at most 2²⁸
};

struct Int4Scale {
  float scale;
  float lowest;  ///< lowest level
};

/// Holds the candidate scales of a group whose largest magnitude is `amax`.
class Int4Scales {
 public:
  constexpr explicit Int4Scales(float amax) : is_searched_(amax >= 0x1p-90F && amax <= 0x1p120F) {
    scale_ = {to_float(base::to_bf16(amax / 7)), to_float(base::to_bf16(amax / 8)), to_float(base::to_bf16(-amax / 8))};
    if (!is_searched_) return;
    for (std::size_t c = 0; c < scale_.size(); ++c) inverse_[c] = 1 / scale_[c];
    grid_ = 0x1p18F / amax;
    step_ = static_cast<double>(amax) * 0x1p-18;
  }

  /// Returns false if the magnitude is zero, extreme or not finite. Then the first scale is the best, without sums.
  constexpr bool is_searched() const { return is_searched_; }
  constexpr const std::array<float, kInt4Candidates>& inverse() const { return inverse_; }
  constexpr float grid() const { return grid_; }

  /// Returns the candidate with the least Σ (weight − level · scale)²; the first of equal ones. Computes in fp64
  /// without the constant Σ weight². Products are exact and their difference is rounded once, so fused operations
  /// change nothing.
  constexpr Int4Scale best(const Int4Sums& sums) const {
    Int4Scale best{scale_[0], lowest_level(0)};
    if (!is_searched_) return best;
    double least = 0;
    for (std::size_t c = 0; c < scale_.size(); ++c) {
      const double s = scale_[c];
      const double error = s * (s * sums.squares[c] - 2 * step_ * sums.products[c]);
      if (c > 0 && !(error < least)) continue;
      best = {scale_[c], lowest_level(static_cast<int>(c))};
      least = error;
    }
    return best;
  }

 private:
  bool is_searched_;
  std::array<float, kInt4Candidates> scale_{}, inverse_{};
  float grid_ = 0;   ///< 2¹⁸ / amax
  double step_ = 0;  ///< amax · 2⁻¹⁸
};

}  // namespace qrl::quant
