// Owns the export of a snapshot's quantized values in compressed-tensors' format, for vLLM and transformers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "model/snapshot.h"

namespace qrl::model {

/// Returns a folder's "quantization_config" as JSON. Throws an input error for block128 with an input width that is no
/// multiple of 128, because compressed-tensors lacks ragged groups.
///
/// | weights | format | a matrix |
/// |---|---|---|
/// | int8 | int-quantized | weight I8, weight_scale F32 [out, 1] |
/// | fp8 | float-quantized | weight F8_E4M3; weight_scale F32 [out, 1], or [blocks of outputs, blocks of inputs] |
/// | int4 | pack-quantized | weight_packed I32, eight inputs a word; weight_scale BF16 [out, groups]; weight_shape |
///
/// Values are always equal. Scales change their form where compressed-tensors or vLLM would misread the snapshot's:
/// - fp8 with one scale per tensor repeats it per output, since vLLM requantizes q, k and v to share one;
/// - a matrix with one group or block of inputs, narrower than 128, has one scale per output;
/// - ragged groups and blocks are divided into equal smaller ones, with equal scales.
std::string quantization_config(const Snapshot& snapshot);

/// Writes config.json (with quantization_config), generation_config.json and tensors to the existing folder. Embedding,
/// exempt layers and lm_head keep the snapshot's dtypes; gains and biases are fp32. A tied lm_head of another dtype
/// than the embedding becomes its own tensor. Throws an internal error for a rotated snapshot.
void save_compressed(const std::filesystem::path& dir, const Snapshot& snapshot,
                     std::uint64_t max_shard_bytes = kMaxShard_bytes);

}  // namespace qrl::model
