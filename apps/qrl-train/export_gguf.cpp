#include "export_gguf.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "data/gguf_keys.h"
#include "model/gguf_model.h"

namespace qrl::app {

std::vector<std::string> gguf_types() {
  std::vector<std::string> words;
  for (const model::GgufPrecision& precision : model::gguf_precisions()) words.emplace_back(precision.word);
  return words;
}

model::GgufPrecision gguf_precision(const std::string& type) {
  const auto all = model::gguf_precisions();
  const auto found = std::ranges::find_if(all, [&](const auto& known) { return type == known.word; });
  return found == all.end() ? all.front() : *found;
}

void export_gguf(const std::string& file, const std::string& type, const train::Policy& policy) {
  model::GgufExport out{file, gguf_precision(type)};
  model::require_gguf_export(policy.config);
  out.tokenizer_keys = data::gguf_keys(policy.tokenizer, policy.config.vocab_size);
  std::map<std::string, std::int64_t> types;
  try {
    types = model::save_gguf(out, policy.config, policy.weights);
  } catch (...) {
    std::error_code error;
    std::filesystem::remove(out.file, error);
    throw;
  }
  std::printf("wrote %s (%s; tensors: %s)\n", file.c_str(), model::spec_of(policy.config.family).model_type,
              model::counts_text(types).c_str());
}

}  // namespace qrl::app
