// Owns the models and the formats that benchmarks know by name.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"
#include "quant/format.h"
#include "quant/kv_format.h"

namespace qrl::app {

/// What docs/performance.md and docs/gpu.md speak of: the quickstart's model, one made for a laptop's processor (86m),
/// Qwen2.5's 1.5B and Qwen3's 8B.
std::vector<std::string> shape_names();
/// The config of one of them; positions up to 8192.
model::ModelConfig built_in_shape(const std::string& name);

/// Formats of weights, and of keys and values, that a GPU's engine takes; by one of their names.
std::vector<std::string> gpu_format_names();
quant::Format gpu_format(const std::string& name);
std::vector<std::string> gpu_kv_format_names();
quant::KvFormat gpu_kv_format(const std::string& name);

}  // namespace qrl::app
