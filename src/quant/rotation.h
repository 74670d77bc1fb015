#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace qrl::quant {

/// Describes a rotation of a linear layer's inputs before they are quantized: x·Wᵀ = (x·H)·(W·H)ᵀ, with H orthogonal.
/// The rotation spreads an outlier over its block. Source: QuaRot (Ashkboos et al. 2024).
///
/// H is block-diagonal. Each block is Sylvester's Hadamard matrix with entries ±1/√block, which is its own inverse.
///
/// A block is rotated in fp32 by butterflies (a, b) → (a + b, a − b) on numbers `step` apart, for step = 1, 2, 4, …
/// block/2. Then each number is multiplied by 1/√block in fp32. Results are bit-identical on every instruction set.
struct Rotation {
  std::int64_t block = 0;  ///< inputs per block, one of kRotationBlocks; 0: no rotation

  explicit operator bool() const { return block > 0; }
  bool fits(std::int64_t inputs) const { return block == 0 || inputs % block == 0; }
  friend bool operator==(const Rotation&, const Rotation&) = default;
};

inline constexpr std::array<std::int64_t, 3> kRotationBlocks = {32, 64, 128};

float scale_of(const Rotation& rotation);

/// Rotates `row`, made of whole blocks, in place.
void rotate(const Rotation& rotation, std::span<float> row);

}  // namespace qrl::quant
