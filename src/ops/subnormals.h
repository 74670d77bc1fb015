#pragma once

#include <xmmintrin.h>

namespace qrl::ops {

/// Lets this thread's fp32 operations read and write subnormal numbers as zeros while it lives. vdpbf16ps and AMX
/// always do, so products have the same bits on every path. Without it a subnormal number costs a hundred cycles.
class FlushSubnormals {
 public:
  FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kOfResults | kOfOperands); }
  ~FlushSubnormals() { _mm_setcsr(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  static constexpr unsigned kOfResults = 0x8000, kOfOperands = 0x40;  // MXCSR's FTZ and DAZ
  unsigned before_;
};

}  // namespace qrl::ops
