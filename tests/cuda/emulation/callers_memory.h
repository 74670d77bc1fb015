// Owns what a caller of the emulation says of its own memory, and is told of launches. Free of the kernels' words,
// which emulation.h has.
#pragma once

#include <functional>

namespace qrl::cuda::emulated {

/// Lets memory that Memory did not allocate be the device's as well as the host's: LibTorch's, in the learner's tests.
/// Else it is the host's, and copies and the engine's doors refuse it as the device's.
void accept_callers_memory(bool accept);

/// Calls this for every kernel, copy and fill that is launched from now on, by its name: "own kernel", ….
void on_launch(std::function<void(const char* name)> call);

}  // namespace qrl::cuda::emulated
