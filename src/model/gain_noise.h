// Owns noise on norms' gains, with which QeRL samples (arXiv 2510.11696).
#pragma once

#include <cstdint>
#include <span>

namespace qrl::model {

struct GainNoise {
  std::uint64_t seed = 0;
  double sigma = 0;  ///< standard deviation; 0: none
};

/// Adds σ·z to a norm's gains. z is standard normal by Box–Muller in fp64 from (version, norm, channel) alone; `norm`
/// is an index in forward order.
void add_gain_noise(const GainNoise& noise, std::int64_t version, std::uint32_t norm, std::span<float> gains);

}  // namespace qrl::model
