#pragma once

#include <string>
#include <vector>

#include "model/config.h"
#include "quant/format.h"
#include "quant/kv_format.h"

namespace qrl::app {

/// Returns the names of the shapes in docs/performance.md and docs/gpu.md. `all` adds those with experts or DeltaNet
/// layers, which GPUs do not support.
std::vector<std::string> shape_names(bool all = true);
/// Returns a built-in shape's config, with 8192 positions.
model::ModelConfig built_in_shape(const std::string& name);

std::vector<std::string> gpu_format_names();
quant::Format gpu_format(const std::string& name);
std::vector<std::string> gpu_kv_format_names();
quant::KvFormat gpu_kv_format(const std::string& name);

}  // namespace qrl::app
