#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "model/config.h"
#include "model/weights.h"
#include "state/gguf.h"

namespace qrl::model {

struct GgufModel {
  ModelConfig config;
  WeightSource weights;                       ///< values rounded to bf16, nearest even
  std::map<std::string, std::int64_t> types;  ///< number of tensors by type: {"F32": 61, "Q4_K": 180}
};

/// Reads the model of a GGUF file. Its metadata become a config.json, which parse_config checks; its tensors get
/// Hugging Face's names. Rows of q and k that llama.cpp reorders are put back. Throws an input error for an
/// architecture that no family has, and for missing, extra, misshaped or non-finite tensors.
GgufModel open_gguf(const std::shared_ptr<const state::GgufFile>& file);

/// Opens a model from a Hugging Face folder, like open_hf, or from a GGUF file, like open_gguf.
HfModel open_model(const std::filesystem::path& path);

/// Reads the config of a Hugging Face folder or a GGUF file.
ModelConfig read_model_config(const std::filesystem::path& path);

/// Returns "61 F32, 180 Q4_K; values in bf16, most of them from 4 bits" for a GGUF file.
std::string describe_gguf(const std::filesystem::path& file);

/// Returns "61 F32, 180 Q4_K".
std::string counts_text(const std::map<std::string, std::int64_t>& types);

}  // namespace qrl::model
