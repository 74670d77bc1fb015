// Owns what a run and the watchdog of a worker tell each other, one message each over a socket.
#pragma once

#include <cstdint>

namespace qrl::tasks {

/// Holds a report of the watchdog to the run. The run sends one byte, after which everything below the watchdog is
/// killed at once.
struct WatchdogNote {
  enum class Kind : std::int32_t {
    started,  ///< value: the program's process
    refused,  ///< value: errno of the start
    exited,   ///< value: the program's exit code
    signaled  ///< value: the signal that ended it
  };
  Kind kind = Kind::started;
  std::int32_t value = 0;
};

inline constexpr int kWatchdogSocket = 3;   ///< its descriptor in the watchdog
inline constexpr int kWatchdogProgram = 4;  ///< and that of the file which it is executed from

}  // namespace qrl::tasks
