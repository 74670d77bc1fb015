#pragma once

#include <cstdint>

namespace qrl::tasks {

/// A watchdog's message to the run, one per socket message. The run sends one byte to have all descendants killed.
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

inline constexpr int kWatchdogSocket = 3;   ///< in the watchdog
inline constexpr int kWatchdogProgram = 4;  ///< descriptor of the file that the watchdog executes

}  // namespace qrl::tasks
