// Owns ticks on the CPU, on all threads of the process.
#pragma once

#include <memory>

#include "decoder/backend.h"
#include "decoder/decoder.h"

namespace qrl::decoder {

/// `options` must be checked (checks.h).
std::unique_ptr<Backend> make_cpu_backend(const model::ModelConfig& config, const DecoderOptions& options);

}  // namespace qrl::decoder
