#include "dist/deadline.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>

namespace qrl::dist {

Deadline::Deadline(double limit_s, std::string message)
    : counter_([limit_s, message = std::move(message)](const std::stop_token& over) {
        constexpr double kTick_s = 0.1;
        std::mutex mutex;
        std::condition_variable_any changed;
        std::unique_lock lock(mutex);
        for (double waited_s = 0; waited_s < limit_s; waited_s += kTick_s) {
          changed.wait_for(lock, over, std::chrono::duration<double>(kTick_s), [] { return false; });
          if (over.stop_requested()) return;
        }
        std::fprintf(stderr, "qrl-train: %s\n", message.c_str());
        std::_Exit(1);
      }) {}

}  // namespace qrl::dist
