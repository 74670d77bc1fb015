#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/weights.h"
#include "state/gguf_writer.h"

namespace qrl::model {

/// Types of the matrices in an exported file. In q4_0, the token table and lm_head are q8_0, since 4 bits hurt them
/// most. Norms and biases are fp32. A matrix whose rows are no whole blocks of 32 is bf16.
enum class GgufPrecision : std::uint8_t { bf16, q8_0, q4_0 };

struct GgufExport {
  std::filesystem::path file;
  GgufPrecision precision = GgufPrecision::bf16;
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
