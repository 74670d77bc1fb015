// Imitates cuBLASLt in a version that this program does not support.
#include <cstddef>

extern "C" std::size_t cublasLtGetVersion() { return 120402; }
