// Owns adapters on disk as Hugging Face's PEFT has them: adapter_config.json and adapter_model.safetensors. Knows
// nothing of training.
#pragma once

#include <filesystem>
#include <string>

#include "model/adapter.h"

namespace qrl::model {

struct PeftAdapter {
  LoraConfig lora;
  WeightSource adapters;  ///< adapter_specs' tensors, fp32 whatever the file's dtype
};

bool is_peft(const std::filesystem::path& dir);

/// Opens a folder whose adapters fit a model. An input error for what is no plain LoRA on linear layers (DoRA, biases,
/// patterns of ranks, a start that moved the base, …), for a tensor that is missing, one too many, or of another shape;
/// when it is read, for one that is not finite.
PeftAdapter open_peft(const std::filesystem::path& dir, const ModelConfig& config);

/// What the folder names as its base (base_model_name_or_path); empty where it names none.
std::string peft_base(const std::filesystem::path& dir);

/// Writes both files, tensors in fp32 as PEFT names them. `base`: what base_model_name_or_path is to say; `staged`: how
/// tensors that are not in host memory are read. The folder must be there.
void save_peft(const std::filesystem::path& dir, const ModelConfig& config, const LoraConfig& lora,
               const std::string& base, const WeightViews& adapters, const state::StagedRead& staged = {});

/// The modules that have an adapter, in the model's order.
std::vector<std::string> adapted_modules(const ModelConfig& config, const LoraConfig& lora);

}  // namespace qrl::model
