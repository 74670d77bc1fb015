// Owns how an Engine comes to be in each of the two programs (runtime.h). Knows nothing of its insides.
#pragma once

#include <memory>

#include "cuda/engine/decode_engine.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// make_engine of engine.h, here.
std::unique_ptr<DecodeEngine> make_device_engine(const EngineOptions& options);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
