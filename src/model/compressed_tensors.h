// Owns the export of a snapshot's quantized values in compressed-tensors' format, for vLLM and transformers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "model/snapshot.h"

namespace qrl::model {

/// Returns "quantization_config" for config.json. Throws an input error if the format is block128 and an input width
/// above 128 is no multiple of 128: compressed-tensors lacks ragged groups. Does the same if a layer's experts differ
/// in format.
///
/// | weights | format | tensors of a matrix |
/// |---|---|---|
/// | int8 | int-quantized | weight I8, weight_scale F32 [out, 1] |
/// | fp8 | float-quantized | weight F8_E4M3; weight_scale F32 [out, 1], or [blocks of outputs, blocks of inputs] |
/// | int4 | pack-quantized | weight_packed I32, eight inputs a word; weight_scale BF16 [out, groups]; weight_shape |
///
/// Dequantized values equal the snapshot's. Scales are rearranged where compressed-tensors or vLLM would misread them:
/// - a per-tensor fp8 scale is repeated for each output, because vLLM would requantize q, k and v to a shared scale;
/// - instead of groups or blocks, a matrix of fewer than 128 inputs has one scale per output;
/// - if a matrix's last group or block is shorter, all groups are split into smaller parts of equal size. Each part
///   repeats its group's scale.
std::string quantization_config(const Snapshot& snapshot);

/// Writes config.json (with quantization_config), generation_config.json and tensors to the existing folder. Embedding,
/// unquantized layers and lm_head keep the snapshot's dtypes; gains and biases are fp32. A tied lm_head whose dtype
/// differs from the embedding's becomes its own tensor. Throws an internal error for a rotated snapshot.
void save_compressed(const std::filesystem::path& dir, const Snapshot& snapshot,
                     std::uint64_t max_shard_bytes = kMaxShard_bytes);

}  // namespace qrl::model
