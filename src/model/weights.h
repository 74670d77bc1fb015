// Owns a model's tensors by name in memory and their way from and to Hugging Face folders. Knows nothing of packing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "base/buffer.h"
#include "model/config.h"

namespace qrl::model {

/// Tensors by Hugging Face name, CPU memory, in weight_specs' names and shapes.
using Weights = std::map<std::string, base::Buffer, std::less<>>;
/// The same without ownership (the learner's masters, say).
using WeightViews = std::map<std::string, base::View, std::less<>>;

WeightViews views(const Weights& weights);

/// A new model: linears and embeddings normal(0, 0.02) (o_proj and down_proj divided by √(2L), as GPT-2), norms 1,
/// biases 0; fp32; every element depends on (seed, tensor's index, element) alone.
Weights init_weights(const ModelConfig& config, std::uint64_t seed);

struct HfModel {
  ModelConfig config;
  Weights weights;   ///< fp32 whatever the file's dtype
};

/// Reads DIR/config.json and DIR/model.safetensors (or the shards of model.safetensors.index.json). A missing, extra,
/// or misshaped tensor is an input error that names it (a tied model may carry lm_head.weight: it must equal the
/// embedding). Non-finite weights are refused.
HfModel load_hf(const std::filesystem::path& dir);

/// Writes DIR/config.json, DIR/generation_config.json and DIR/model.safetensors with tensors in `config.dtype`
/// (f32 or bf16, nearest even). The tokenizer's files are the caller's to add.
void save_hf(const std::filesystem::path& dir, const ModelConfig& config, const WeightViews& weights);

}  // namespace qrl::model
