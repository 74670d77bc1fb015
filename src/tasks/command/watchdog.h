// Owns the end of child processes after this process was killed: nothing of ours can run then.
#pragma once

#include <sys/types.h>

#include "tasks/command/process.h"

namespace qrl::tasks {

/// A small process in a session of its own that kills the groups it was told of once this process is gone: its standard
/// input then ends. A death signal set in the child itself would reach neither the child's own children nor survive the
/// thread that started it.
class Watchdog {
 public:
  Watchdog();
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void watch(pid_t group) const { tell('+', group); }
  void forget(pid_t group) const { tell('-', group); }

 private:
  void tell(char sign, pid_t group) const;
  pid_t pid_ = -1;
  Fd input_;
};

}  // namespace qrl::tasks
