// Owns how a caller of the emulation declares its own memory, and how it observes launches. Does not include the
// kernels' vocabulary of emulation.h.
#pragma once

#include <functional>

namespace qrl::cuda::emulated {

/// Accepts memory that Memory did not allocate as both the device's and the host's: LibTorch's, in the learner's tests.
/// If false, it is host memory, which copies and the engine refuse as device memory.
void accept_callers_memory(bool accept);

/// Calls `call` with the name of every kernel, copy and fill that is launched from now on: "own kernel", ….
void on_launch(std::function<void(const char* name)> call);

}  // namespace qrl::cuda::emulated
