// Owns how LibTorch's CUDA part joins a program that is linked without it, so that one program runs with and without a
// GPU. Knows no tensor.
#pragma once

namespace qrl::learner {

/// Loads libtorch_cuda.so, which enters its operations in LibTorch's dispatcher, from beside the libtorch_cpu.so of this
/// process, else by the loader's own search; sets LibTorch's operations to those that give the same bits each time. Any
/// number of calls, from one thread. An input error where the library, something it needs, a driver or a GPU is missing.
void load_cuda_library();

}  // namespace qrl::learner
