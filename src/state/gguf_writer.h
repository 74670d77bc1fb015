#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "state/gguf.h"

namespace qrl::state {

/// Holds a metadata value with the width that llama.cpp reads.
using GgufField = std::variant<std::uint32_t, float, bool, std::string, std::vector<std::int32_t>, std::vector<float>,
                               std::vector<std::string>>;

struct GgufKey {
  std::string name;
  GgufField value;
};

struct GgufOutput {
  std::string name;
  const GgufType* type;  ///< has `write`
  base::Shape shape;     ///< outermost dimension first; the last is a multiple of the type's block
};

/// Fills a tensor's fp32 values, outermost dimension first.
using GgufValues = std::function<void(const GgufOutput& tensor, std::span<float> to)>;

/// Writes a GGUF file of version 3 with an alignment of 32 bytes. Calls `values` once a tensor, in order, and keeps one
/// tensor in memory. Replaces an existing file. Throws an input error for values that are not finite, and for a file
/// that cannot be written.
void write_gguf(const std::filesystem::path& file, const std::vector<GgufKey>& keys,
                const std::vector<GgufOutput>& tensors, const GgufValues& values);

}  // namespace qrl::state
