#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/weights.h"
#include "state/gguf_writer.h"

namespace qrl::model {

/// Describes the types of an exported file. Norms and biases are F32. A matrix whose rows are no whole blocks is BF16.
struct GgufPrecision {
  const char* word;  ///< "q4_0"
  const char* matrices;
  const char* tables;       ///< type of the token table and lm_head, which 4 bits hurt most
  std::uint32_t file_type;  ///< llama.cpp's number, general.file_type
};

/// Returns the precisions that can be written; the default is the first.
std::span<const GgufPrecision> gguf_precisions();

struct GgufExport {
  std::filesystem::path file;
  GgufPrecision precision = gguf_precisions().front();
  std::vector<state::GgufKey> tokenizer_keys = {};  ///< data::gguf_keys
};

/// Throws an input error for a model that GGUF cannot describe: a family without an architecture there, and rotary
/// positions that llama.cpp computes otherwise. Writes nothing.
void require_gguf_export(const ModelConfig& config);

/// Writes a model as one GGUF file of llama.cpp, version 3. Returns the number of tensors by type. Throws like
/// require_gguf_export and state::write_gguf.
std::map<std::string, std::int64_t> save_gguf(const GgufExport& out, const ModelConfig& config,
                                              const WeightSource& weights);

}  // namespace qrl::model
