// Owns the checksums with which goldens store rows of numbers.
#pragma once

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace qrl::test {

/// Returns FNV-1a over the bits of each row, both zeros as zero.
inline nlohmann::json checksums(const std::vector<float>& values, std::int64_t width) {
  nlohmann::json sums = nlohmann::json::array();
  for (std::size_t at = 0; at < values.size(); at += static_cast<std::size_t>(width)) {
    std::uint32_t sum = 2166136261U;
    for (std::size_t i = at; i < at + static_cast<std::size_t>(width); ++i)
      sum = (sum ^ std::bit_cast<std::uint32_t>(values[i] == 0 ? 0.0F : values[i])) * 16777619U;
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace qrl::test
