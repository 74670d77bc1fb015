// A piece of code run in a child process, its system calls watched by ptrace: to kill it at one, to make one fail, and
// to know in which order it brought what to the disk. x86-64 Linux.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace qrl::test {

/// A system call of the traced process.
struct Call {
  unsigned long long number = 0;
  long long result = 0;
  std::string path;    ///< of its first argument: the open file's, or the name given
  std::string second;  ///< of rename: the new name
  std::string bytes;   ///< of write: what was written
  int flags = 0;       ///< of openat
};

struct Trace {
  std::vector<Call> calls;
  bool possible = true;  ///< false where this machine forbids tracing
  bool killed = false;
  int exit_code = -1;  ///< 0: `body` returned; 1: it threw
};

constexpr std::size_t kNever = ~std::size_t{0};

struct TraceOptions {
  std::size_t kill_at = kNever;  ///< SIGKILL on entry to this call, counted from 0
  std::size_t fail_at = kNever;  ///< this call does nothing and gives `error`
  int error = 0;                 ///< EIO, ENOSPC, …
};

Trace run_traced(const std::function<void()>& body, const TraceOptions& options = {});

}  // namespace qrl::test
