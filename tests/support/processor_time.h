// Owns time limits as processor time relative to a fixed loop on the same machine. Neither a slow processor nor other
// load changes a verdict. No test asserts wall time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>

namespace qrl::test {

/// Returns the processor time of this thread.
inline double thread_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Returns the best time of a loop of dependent multiplications, which takes 1 ms on a 2 GHz Xeon.
inline double loop_s() {
  static const double best = [] {
    double least = 1e9;
    for (int attempt = 0; attempt < 5; ++attempt) {
      const double start_s = thread_s();
      std::uint64_t value = 1;
      for (int i = 0; i < 1'000'000; ++i) {
        value = value * 6364136223846793005U + 1;
        __asm__ volatile("" : "+r"(value));  // keeps the compiler from removing the loop
      }
      least = std::min(least, thread_s() - start_s);
    }
    return least;
  }();
  return best;
}

/// Returns the seconds that `work` would take on that Xeon.
template <class Work>
double seconds_on_xeon(const Work& work) {
  const double start_s = thread_s();
  work();
  return (thread_s() - start_s) / loop_s() * 1e-3;
}

}  // namespace qrl::test
