// Owns adapters on disk in PEFT's format: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <string>

#include "model/adapter.h"

namespace qrl::model {

struct PeftAdapter {
  LoraConfig lora;
  WeightSource adapters;  ///< tensors of adapter_specs, read as fp32 from any dtype
};

bool is_peft(const std::filesystem::path& dir);

/// Throws an input error for anything beyond plain LoRA on linear layers (DoRA, biases, rank patterns, …), and for
/// missing, extra or misshaped tensors. Reading throws an input error for non-finite values.
PeftAdapter open_peft(const std::filesystem::path& dir, const ModelConfig& config);

/// Returns the folder's base_model_name_or_path, or "".
std::string peft_base(const std::filesystem::path& dir);

/// Writes both files into the existing folder. Tensors are fp32 and have PEFT's names. If set, `staged` reads tensors
/// that are not in host memory.
void save_peft(const std::filesystem::path& dir, const ModelConfig& config, const LoraConfig& lora,
               const std::string& base, const WeightViews& adapters, const state::StagedRead& staged = {});

/// Returns the adapted modules' full names, in the model's order.
std::vector<std::string> adapted_modules(const ModelConfig& config, const LoraConfig& lora);

}  // namespace qrl::model
