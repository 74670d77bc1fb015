#pragma once

#include <csignal>
#include <ctime>

namespace qrl::tasks {

/// Blocks SIGPIPE on this thread: a write to a pipe without a reader fails instead of ending the process.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~NoSigpipe() {
    const timespec at_once{0, 0};
    if (!was_pending_) (void)sigtimedwait(&set_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t set_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace qrl::tasks
