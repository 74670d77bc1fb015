#pragma once

#include <cstdint>

namespace qrl::tasks {

/// Holds a watchdog's message to the run: one packet of the socket. One byte from the run requests that all descendants
/// be killed.
struct WatchdogNote {
  enum class Kind : std::int32_t {
    started,  ///< value: the program's process id
    refused,  ///< value: errno of the failed start
    exited,   ///< value: the program's exit code
    signaled  ///< value: the signal that ended it
  };
  Kind kind = Kind::started;
  std::int32_t value = 0;
};

inline constexpr int kWatchdogSocket = 3;   ///< descriptor of the watchdog's socket to the run
inline constexpr int kWatchdogProgram = 4;  ///< descriptor of the file that the watchdog executes

}  // namespace qrl::tasks
