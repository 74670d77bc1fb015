#pragma once

#include <string>
#include <vector>

#include "model/gguf_export.h"
#include "train/policy/policy.h"

namespace qrl::app {

/// Returns the words of --type.
std::vector<std::string> gguf_types();

/// Returns what a word of --type means; an empty one means bf16.
model::GgufPrecision gguf_precision(const std::string& type);

/// Writes the policy as one GGUF file and prints its types. Deletes the file if that fails.
void export_gguf(const std::string& file, const std::string& type, const train::Policy& policy);

}  // namespace qrl::app
