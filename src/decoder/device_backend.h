// Owns ticks on a GPU: what a snapshot, a plan and a call's samples are to the engine of cuda/engine/decode_engine.h.
// Knows nothing of kernels or of scheduling.
#pragma once

#include <memory>

#include "cuda/engine/decode_engine.h"
#include "decoder/backend.h"
#include "decoder/decoder.h"
#include "model/adapter.h"

namespace qrl::decoder {

/// What an engine for this model and these (checked) options is made with.
cuda::EngineOptions engine_options(const model::ModelConfig& config, const DecoderOptions& options);

/// Of the engine's memory on the device, what GEMMs of up to num_rows rows of a tick or of a learner keep for operands
/// that they dequantize.
std::int64_t dequantized_bytes(const model::ModelConfig& config, quant::Format format, std::int64_t num_rows,
                               bool row_only_sums);

/// And what adapters take there, with what ticks of up to num_rows rows need for them.
std::int64_t device_adapter_bytes(const model::ModelConfig& config, const model::LoraConfig& lora,
                                  std::int64_t num_rows);

/// Bytes of a GPU that stay free when KV pages take the rest of its memory.
std::int64_t kept_back_bytes();

/// Takes an engine made with engine_options of the same arguments. Weights are copied to the device at the first
/// `begin` of each version that the snapshot holds. Samples of requests with top-k or top-p are made on the CPU from
/// whole rows of logits.
std::unique_ptr<Backend> make_device_backend(const model::ModelConfig& config, const DecoderOptions& options,
                                             std::unique_ptr<cuda::DecodeEngine> engine);

}  // namespace qrl::decoder
