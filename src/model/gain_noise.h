// Owns the noise on the gains of norms that QeRL samples with (arXiv 2510.11696): its numbers. Knows nothing of when.
#pragma once

#include <cstdint>
#include <span>

namespace qrl::model {

/// Normal noise that is added to a sampler's gains.
struct GainNoise {
  std::uint64_t seed = 0;
  double sigma = 0;  ///< its standard deviation; 0: none
};

/// Adds σ·z to the gains of one norm, z standard normal by Box–Muller in fp64, from the counter
/// (version, norm, channel) alone. `norm` numbers the norms of a model in the order of the forward pass.
void add_gain_noise(const GainNoise& noise, std::int64_t version, std::uint32_t norm, std::span<float> gains);

}  // namespace qrl::model
