// Owns the factory of DecodeEngine, for CUDA and for the tests' emulation (runtime.h).
#pragma once

#include <memory>

#include "cuda/engine/decode_engine.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

std::unique_ptr<DecodeEngine> make_device_engine(const EngineOptions& options);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
