// Owns the models that `bench` knows by name.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"

namespace qrl::app {

/// What docs/performance.md and docs/gpu.md speak of: the quickstart's model, one made for a laptop's processor (86m),
/// Qwen2.5's 1.5B and Qwen3's 8B.
std::vector<std::string> shape_names();
/// The config of one of them; positions up to 8192.
model::ModelConfig built_in_shape(const std::string& name);

}  // namespace qrl::app
