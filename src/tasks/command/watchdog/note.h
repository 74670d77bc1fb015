#pragma once

#include <cstdint>

namespace qrl::tasks {

/// Holds a message that the watchdog sends to the run as one packet. In the other direction, a single byte makes the
/// watchdog kill all descendants.
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
inline constexpr int kWatchdogProgram = 4;  ///< descriptor of the watchdog's executable

}  // namespace qrl::tasks
