// Owns ticks on the CPU: the transformer's ops over a snapshot in place, and sampling, on all threads of the process.
#pragma once

#include <memory>

#include "decoder/backend.h"
#include "decoder/decoder.h"

namespace qrl::decoder {

/// Makes the backend. `options` must be checked (checks.h).
std::unique_ptr<Backend> make_cpu_backend(const model::ModelConfig& config, const DecoderOptions& options);

}  // namespace qrl::decoder
