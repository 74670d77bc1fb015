// Owns the backend on a GPU: converts snapshots, plans and samples for the engine of cuda/engine/decode_engine.h. Knows
// nothing of kernels or scheduling.
#pragma once

#include <memory>

#include "cuda/engine/decode_engine.h"
#include "decoder/backend.h"
#include "decoder/decoder.h"
#include "model/adapter.h"

namespace qrl::decoder {

/// Returns the engine options for this model and checked decoder options.
cuda::EngineOptions engine_options(const model::ModelConfig& config, const DecoderOptions& options);

/// Returns the bytes of device memory for dequantized operands of GEMMs with up to num_rows rows, in a tick or a
/// learner.
std::int64_t dequantized_bytes(const model::ModelConfig& config, quant::Format format, std::int64_t num_rows,
                               bool row_only_sums);

/// Returns the bytes of device memory for LoRA adapters and their buffers in ticks of up to num_rows rows.
std::int64_t device_adapter_bytes(const model::ModelConfig& config, const model::LoraConfig& lora,
                                  std::int64_t num_rows);

/// Returns the bytes of a GPU's memory that KV pages leave free.
std::int64_t kept_back_bytes();

/// Makes a backend on an engine that was created with engine_options of the same arguments. `begin` uploads the
/// snapshot's weights once per version. Requests with top-k or top-p are sampled on the CPU from whole rows of logits.
std::unique_ptr<Backend> make_device_backend(const model::ModelConfig& config, const DecoderOptions& options,
                                             std::unique_ptr<cuda::DecodeEngine> engine);

}  // namespace qrl::decoder
