// A library of cuBLASLt's kind, of a version that this program does not want.
#include <cstddef>

extern "C" std::size_t cublasLtGetVersion() { return 120402; }
