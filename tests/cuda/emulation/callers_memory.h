// Owns what the emulation holds memory to be that it did not allocate. Free of the kernels' words, which emulation.h
// has.
#pragma once

namespace qrl::cuda::emulated {

/// Lets memory that Memory did not allocate be the device's as well as the host's: LibTorch's, in the learner's tests.
/// Else it is the host's, and copies and the engine's doors refuse it as the device's.
void accept_callers_memory(bool accept);

}  // namespace qrl::cuda::emulated
