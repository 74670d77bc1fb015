// Tests noise on a sampler's gains: its numbers, and its behavior in repeated publishes.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/buffer.h"
#include "model/snapshot.h"
#include "model/weights.h"
#include "support/catch.h"
#include "support/models.h"
#include "support/weights.h"

using namespace qrl;
using namespace qrl::model;

namespace {

nlohmann::json golden_noise() {
  std::ifstream file(test::shipped_data() / "golden" / "gain_noise.json");
  return nlohmann::json::parse(file);
}

ModelConfig noise_config() { return test::model_config(Family::qwen3, {71, 24, 2, 4, 2, 10, 37}, {.qk_norm = true}); }

/// Returns the gains of a snapshot's norms in the order of the forward pass.
std::vector<std::vector<float>> gains_of(const Snapshot& snapshot) {
  std::vector<std::vector<float>> all;
  const auto add = [&](const base::Buffer& gain) {
    all.emplace_back(gain.as<float>(), gain.as<float>() + gain.view().numel());
  };
  for (std::int64_t idx = 0; idx < snapshot.config().num_hidden_layers; ++idx) {
    const LayerSnapshot& layer = snapshot.layer(idx);
    for (const base::Buffer* gain : {&layer.input_norm_D, &layer.q_norm_E, &layer.k_norm_E, &layer.post_norm_D})
      add(*gain);
  }
  add(snapshot.final_norm_D());
  return all;
}

void check_noise(const Snapshot& snapshot, const std::vector<std::vector<float>>& clean, const nlohmann::json& z,
                 double sigma) {
  const auto got = gains_of(snapshot);
  REQUIRE(got.size() == z.size());
  for (std::size_t norm = 0; norm < got.size(); ++norm) {
    REQUIRE(got[norm].size() == z[norm].size());
    for (std::size_t i = 0; i < got[norm].size(); ++i)
      CHECK(std::abs(got[norm][i] - (clean[norm][i] + sigma * z[norm][i].get<double>())) <= 2e-7);
  }
}

}  // namespace

TEST_CASE("gain noise: equals the golden numbers, for the last published version only") {
  const nlohmann::json file = golden_noise();
  const ModelConfig config = noise_config();
  const Weights weights = test::init_weights(config, 3);
  const double sigma = 0.05;
  const GainNoise noise{file["seed"].get<std::uint64_t>(), sigma};
  for (const bool with_adapters : {false, true}) {
    CAPTURE(with_adapters);
    SnapshotFormats formats(quant::Format::int8);
    if (with_adapters) formats.lora.rank = 2;
    Snapshot snapshot(config, formats), plain(config, formats);
    plain.publish(views(weights), 0);
    const auto clean = gains_of(plain);
    snapshot.publish(views(weights), 0);
    CHECK(gains_of(snapshot) == clean);

    snapshot.use_gain_noise(noise);
    Weights adapters;
    for (const WeightSpec& spec : adapter_specs(config, formats.lora))
      adapters.try_emplace(spec.name, base::DType::f32, spec.shape);
    for (const nlohmann::json& one : file["versions"]) {
      const auto version = one["version"].get<std::int64_t>();
      if (with_adapters) snapshot.publish_adapters(views(adapters), version);
      else snapshot.publish(views(weights), version);
      check_noise(snapshot, clean, one["z"], sigma);
    }
    // A resumed run has a new snapshot.
    Snapshot fresh(config, formats);
    fresh.use_gain_noise(noise);
    fresh.publish(views(weights), snapshot.version());
    if (with_adapters) fresh.publish_adapters(views(adapters), snapshot.version());
    CHECK(gains_of(fresh) == gains_of(snapshot));

    snapshot.use_gain_noise({noise.seed, 0});
    if (with_adapters) snapshot.publish_adapters(views(adapters), 9);
    else snapshot.publish(views(weights), 9);
    CHECK(gains_of(snapshot) == clean);
  }
}

TEST_CASE("gain noise: standard normal, and depends on seed, version, norm and channel") {
  constexpr std::size_t kCount = 20000;
  const auto draw = [](std::uint64_t seed, std::int64_t version, std::uint32_t norm) {
    std::vector<float> gains(kCount);
    add_gain_noise({seed, 1}, version, norm, gains);
    return gains;
  };
  const auto one = draw(1, 2, 3);
  CHECK(draw(1, 2, 3) == one);
  for (const auto& other : {draw(2, 2, 3), draw(1, 3, 3), draw(1, 2, 4)}) {
    double product = 0;
    for (std::size_t i = 0; i < kCount; ++i) product += other[i] * one[i];
    CHECK(std::abs(product / kCount) < 0.03);  // four standard deviations of a correlation
  }
  double sum = 0, squares = 0;
  for (const float z : one) sum += z, squares += z * z;
  CHECK(std::abs(sum / kCount) < 0.03);
  CHECK(std::abs(squares / kCount - 1) < 0.04);
}

TEST_CASE("gain noise: where gains are 1 + w, it is added to 1 + w, also after a publish of adapters with norms") {
  ModelConfig config = noise_config();
  config.norm_offset = 1;
  const nlohmann::json file = golden_noise();
  const double sigma = 0.05;
  Weights weights = test::init_weights(config, 3);  // w = 0
  SnapshotFormats formats(quant::Format::int8);
  formats.lora.rank = 2;
  formats.lora.train_norms = true;
  Snapshot snapshot(config, formats);
  snapshot.publish(views(weights), 0);
  std::vector<std::vector<float>> clean = gains_of(snapshot);
  for (const std::vector<float>& gains : clean) CHECK(std::ranges::all_of(gains, [](float gain) { return gain == 1; }));
  snapshot.use_gain_noise({file["seed"].get<std::uint64_t>(), sigma});
  Weights adapters;
  for (const WeightSpec& spec : adapter_specs(config, formats.lora)) {
    adapters.try_emplace(spec.name, base::DType::f32, spec.shape);
    if (spec.kind == WeightKind::norm) std::fill_n(adapters.at(spec.name).as<float>(), spec.shape.numel(), 0.25F);
  }
  for (std::vector<float>& gains : clean) std::ranges::fill(gains, 1.25F);
  const nlohmann::json& one = file["versions"][0];
  snapshot.publish_adapters(views(adapters), one["version"].get<std::int64_t>());
  check_noise(snapshot, clean, one["z"], sigma);
}
