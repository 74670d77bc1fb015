#pragma once

namespace qrl::cuda {

/// A caller's stream on the engine's device: a cudaStream_t, or null for CUDA's default stream. Must outlive the
/// engine.
struct CallersStream {
  void* handle = nullptr;
};

}  // namespace qrl::cuda
