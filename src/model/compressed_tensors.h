// Owns the export of a snapshot in its own bits, as a folder in compressed-tensors' format, which vLLM and transformers
// load.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "model/snapshot.h"

namespace qrl::model {

/// Returns the "quantization_config" of a snapshot's folder, as JSON. Throws an input error for block128 with an input
/// width that is not a multiple of 128, because compressed-tensors cannot express a ragged group of activations.
///
/// | weights | format | a matrix |
/// |---|---|---|
/// | int8 | int-quantized | weight I8, weight_scale F32 [out, 1] |
/// | fp8 | float-quantized | weight F8_E4M3; weight_scale F32 [out, 1], or [blocks of outputs, blocks of inputs] |
/// | int4 | pack-quantized | weight_packed I32, eight inputs a word; weight_scale BF16 [out, groups]; weight_shape |
///
/// Scales differ in form from the snapshot's where compressed-tensors or vLLM would misread those; values are equal:
/// - fp8 with one scale per tensor repeats it for each output, because vLLM requantizes q, k and v to share one;
/// - a matrix with a single group or block of inputs, narrower than 128, has one scale per output;
/// - ragged groups and blocks are divided into equal smaller ones, with equal scales.
std::string quantization_config(const Snapshot& snapshot);

/// Writes config.json (with quantization_config), generation_config.json and the tensors to the folder, which must
/// exist. Embedding, exempt layers and lm_head have the snapshot's dtypes; gains and biases are fp32. A tied lm_head
/// whose dtype differs from the embedding's becomes a tensor of its own. Holds one tensor at a time besides the
/// snapshot. Throws an internal error for a rotated snapshot.
void save_compressed(const std::filesystem::path& dir, const Snapshot& snapshot,
                     std::uint64_t max_shard_bytes = kMaxShard_bytes);

}  // namespace qrl::model
