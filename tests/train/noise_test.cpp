// Tests the schedule of the noise on a sampler's gains.
#include <fstream>

#include "support/catch.h"
#include "train/step/weight_publisher.h"

using namespace qrl;

TEST_CASE("gain noise: deviations follow QeRL's schedule after every step") {
  std::ifstream file(test::shipped_data() / "golden" / "gain_noise.json");
  for (const nlohmann::json& one : nlohmann::json::parse(file)["schedule"]) {
    const train::GainNoiseRecipe noise{one["start"].get<double>(), one["end"].get<double>(),
                                       one["stages"].get<std::int64_t>()};
    const auto total = one["total"].get<std::int64_t>();
    CAPTURE(noise.stages, total);
    REQUIRE(one["sigma"].size() == static_cast<std::size_t>(total + 1));
    for (std::int64_t step = 0; step <= total; ++step) {
      const double want = one["sigma"][static_cast<std::size_t>(step)];
      CHECK(std::abs(train::gain_noise_sigma(noise, step, total) - want) <= 1e-12);
    }
  }
  CHECK(train::gain_noise_sigma({}, 50, 60) == 0);
}
