#include "model/gain_noise.h"

#include <cmath>
#include <numbers>

#include "base/rng.h"

namespace qrl::model {

void add_gain_noise(const GainNoise& noise, std::int64_t version, std::uint32_t norm, std::span<float> gains) {
  const base::RandomField field(noise.seed, base::RandomPurpose::gain_noise);
  const auto of_version = static_cast<std::uint64_t>(version);
  for (std::size_t channel = 0; channel < gains.size(); ++channel) {
    const auto words =
        field.words({static_cast<std::uint32_t>(of_version), static_cast<std::uint32_t>(of_version >> 32), norm,
                     static_cast<std::uint32_t>(channel)});
    const double radius = std::sqrt(-2.0 * std::log(1.0 - base::to_unit(words[0], words[1])));
    const double z = radius * std::cos(2.0 * std::numbers::pi * base::to_unit(words[2], words[3]));
    gains[channel] = static_cast<float>(gains[channel] + noise.sigma * z);
  }
}

}  // namespace qrl::model
