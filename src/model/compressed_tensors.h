// Owns how a snapshot leaves in its own bits: as a folder in compressed-tensors' format, which vLLM and transformers
// load. Knows nothing of checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "model/snapshot.h"

namespace qrl::model {

/// The "quantization_config" of a snapshot's folder, as JSON. Throws an input error for shapes whose scales
/// compressed-tensors cannot say: block128's tokens have a scale for 128 inputs, and a ragged last one has no word.
///
/// | weights | format | a matrix |
/// |---|---|---|
/// | int8 | int-quantized | weight I8, weight_scale F32 [out, 1] |
/// | fp8 | float-quantized | weight F8_E4M3; weight_scale F32 [out, 1], or [blocks of outputs, blocks of inputs] |
/// | int4 | pack-quantized | weight_packed I32, eight inputs a word; weight_scale BF16 [out, groups]; weight_shape |
///
/// Other spellings of the same values, where compressed-tensors or vLLM would read ours otherwise:
/// - fp8 with a scale a tensor has it at each output, since vLLM quantizes q, k and v anew to share one;
/// - a matrix that has one group or block of inputs, narrower than 128, has a scale an output;
/// - groups and blocks that would be ragged are divided into equal ones, with equal scales.
std::string quantization_config(const Snapshot& snapshot);

/// Writes config.json (with quantization_config), generation_config.json and the tensors to the folder, which exists:
/// embedding, exempt layers and lm_head in the snapshot's dtypes, gains and biases in fp32. An lm_head that is tied,
/// but in another dtype than the embedding, becomes a tensor of its own. Holds one tensor at a time besides the
/// snapshot.
void save_compressed(const std::filesystem::path& dir, const Snapshot& snapshot,
                     std::uint64_t max_shard_bytes = kMaxShard_bytes);

}  // namespace qrl::model
