// Owns adapters on disk in Hugging Face's PEFT format: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <string>

#include "model/adapter.h"

namespace qrl::model {

struct PeftAdapter {
  LoraConfig lora;
  WeightSource adapters;  ///< tensors of adapter_specs, fp32 whatever the file's dtype
};

bool is_peft(const std::filesystem::path& dir);

/// Opens a folder with adapters for this model. Throws an input error for anything but plain LoRA on linear layers
/// (DoRA, biases, rank patterns, an initialization that changed the base, …). Also throws for a missing, extra or
/// misshaped tensor, and on reading for one that is not finite.
PeftAdapter open_peft(const std::filesystem::path& dir, const ModelConfig& config);

/// Returns base_model_name_or_path of the folder; "" if it has none.
std::string peft_base(const std::filesystem::path& dir);

/// Writes both files, tensors in fp32 under PEFT's names. `base` becomes base_model_name_or_path. `staged` reads
/// tensors that are not in host memory. The folder must exist.
void save_peft(const std::filesystem::path& dir, const ModelConfig& config, const LoraConfig& lora,
               const std::string& base, const WeightViews& adapters, const state::StagedRead& staged = {});

/// Names of the modules with an adapter, in the model's order.
std::vector<std::string> adapted_modules(const ModelConfig& config, const LoraConfig& lora);

}  // namespace qrl::model
