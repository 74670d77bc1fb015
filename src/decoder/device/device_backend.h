#pragma once

#include <memory>

#include "cuda/engine/decode_engine.h"
#include "decoder/backend.h"
#include "decoder/options.h"
#include "model/adapter.h"

namespace qrl::decoder {

cuda::EngineOptions engine_options(const model::ModelConfig& config, const DecoderOptions& options);

/// Returns the device bytes of dequantized operands in GEMMs of at most num_rows rows, in ticks or in a learner.
std::int64_t dequantized_bytes(const model::ModelConfig& config, quant::Format format, std::int64_t num_rows,
                               bool row_only_sums);

/// Returns the device bytes of LoRA adapters and their buffers in ticks of at most num_rows rows.
std::int64_t device_adapter_bytes(const model::ModelConfig& config, const model::LoraConfig& lora,
                                  std::int64_t num_rows);

/// Returns the GPU bytes that the KV pages must leave free for libraries.
std::int64_t kept_back_bytes();
/// Returns the GPU bytes that CUDA graphs may take, which the KV pages leave free.
std::int64_t graph_bytes();

/// Makes a backend that uses `engine`. `engine` must have been made with engine_options(config, options).
std::unique_ptr<Backend> make_device_backend(const model::ModelConfig& config, const DecoderOptions& options,
                                             std::unique_ptr<cuda::DecodeEngine> engine);

}  // namespace qrl::decoder
