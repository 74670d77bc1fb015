// Owns clocks, on which no reproducible result may depend.
#pragma once

#include <chrono>

namespace qrl::base {

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double unix_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Adds its lifetime in seconds to a total.
class ScopedTimer {
 public:
  explicit ScopedTimer(double& total_s) : total_s_(total_s), start_s_(now_s()) {}
  ~ScopedTimer() { total_s_ += now_s() - start_s_; }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  double& total_s_;
  double start_s_;
};

}  // namespace qrl::base
