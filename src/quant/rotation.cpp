#include "quant/rotation.h"

#include <cmath>
#include <string>

#include "base/error.h"

namespace qrl::quant {

float scale_of(const Rotation& rotation) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(rotation.block)));
}

void rotate(const Rotation& rotation, std::span<float> row) {
  if (!rotation) return;
  const auto block = static_cast<std::size_t>(rotation.block);
  QRL_INVARIANT(row.size() % block == 0, "rotate", "whole blocks of " + std::to_string(block),
                std::to_string(row.size()) + " inputs");
  for (std::size_t first = 0; first < row.size(); first += block) {
    for (std::size_t step = 1; step < block; step *= 2) {
      for (std::size_t group = first; group < first + block; group += 2 * step) {
        for (std::size_t i = group; i < group + step; ++i) {
          const float a = row[i], b = row[i + step];
          row[i] = a + b;
          row[i + step] = a - b;
        }
      }
    }
  }
  for (float& value : row) value *= scale_of(rotation);
}

}  // namespace qrl::quant
