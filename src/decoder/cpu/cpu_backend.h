// Owns ticks on the CPU, on all threads of the process.
#pragma once

#include <memory>

#include "decoder/backend.h"
#include "decoder/options.h"

namespace qrl::decoder {

/// `options` must be checked (decoder.cpp).
std::unique_ptr<Backend> make_cpu_backend(const model::ModelConfig& config, const DecoderOptions& options);

}  // namespace qrl::decoder
