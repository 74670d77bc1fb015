// Owns the rotation of what enters a quantized matrix as a specification, and its reference. Knows neither layers nor
// speed.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace qrl::quant {

/// Rotates the inputs of a linear layer before they are quantized: x·Wᵀ = (x·H)·(W·H)ᵀ, with H orthogonal. An outlier
/// of a block is spread over all of its numbers, so that it no longer sets the scale alone (QuaRot, Ashkboos et al.
/// 2024, which rotates for inference).
///
/// H has blocks of neighboring inputs on its diagonal, each Sylvester's Hadamard matrix with entries ±1/√block. It is
/// symmetric, so H rotates back what it rotated. Random signs in front of it gain nothing
/// (docs/science/real-weights.md).
///
/// A block is rotated by butterflies, (a, b) → (a + b, a − b) in fp32. In the stages step = 1, 2, 4, … block/2 each
/// number is paired with that `step` places further. All are then multiplied by 1/√block in fp32, a power of two
/// for blocks of 64. Every instruction set gives these bits.
struct Rotation {
  std::int64_t block = 0;  ///< inputs that are rotated together, one of kRotationBlocks; 0: none are

  explicit operator bool() const { return block > 0; }
  bool fits(std::int64_t inputs) const { return block == 0 || inputs % block == 0; }
  friend bool operator==(const Rotation&, const Rotation&) = default;
};

inline constexpr std::array<std::int64_t, 3> kRotationBlocks = {32, 64, 128};

/// 1/√block, as fp32.
float scale_of(const Rotation& rotation);

/// Reference: rotates `row` in place, whose length the rotation fits, in the plain steps above.
void rotate(const Rotation& rotation, std::span<float> row);

}  // namespace qrl::quant
