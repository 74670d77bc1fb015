// Owns the noise on the gains of norms that QeRL samples with (arXiv 2510.11696).
#pragma once

#include <cstdint>
#include <span>

namespace qrl::model {

struct GainNoise {
  std::uint64_t seed = 0;
  double sigma = 0;  ///< standard deviation; 0: none
};

/// Adds σ·z to the gains of one norm. z is standard normal by Box–Muller in fp64, from the counter (version, norm,
/// channel) alone. `norm` is the norm's index in the order of the forward pass.
void add_gain_noise(const GainNoise& noise, std::int64_t version, std::uint32_t norm, std::span<float> gains);

}  // namespace qrl::model
