// Owns how a DecodeEngine is made in each of the two programs (runtime.h). Knows nothing of its internals.
#pragma once

#include <memory>

#include "cuda/engine/decode_engine.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Implements make_engine of decode_engine.h for this target.
std::unique_ptr<DecodeEngine> make_device_engine(const EngineOptions& options);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
