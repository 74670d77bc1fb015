// Holds a whole model in memory for tests.
#pragma once

#include "model/weights.h"

namespace qrl::test {

struct LoadedModel {
  model::ModelConfig config;
  model::Weights weights;
};

inline LoadedModel load_hf(const std::filesystem::path& dir) {
  const model::HfModel opened = model::open_hf(dir);
  return {opened.config, model::read_weights(opened.config, opened.weights)};
}

inline model::Weights init_weights(const model::ModelConfig& config, std::uint64_t seed) {
  return model::read_weights(config, model::new_weights(config, seed));
}

}  // namespace qrl::test
