#pragma once

#include <cstdint>

namespace qrl::base {

/// Names the activation of a gated MLP: silu (SwiGLU), or GELU in its form with tanh (GeGLU).
enum class Gate : std::uint8_t { silu, gelu_tanh };

}  // namespace qrl::base
