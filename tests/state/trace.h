// Runs code in a child process and watches its system calls with ptrace: kills it at one, makes one fail, or records
// the order of its writes. x86-64 Linux.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace qrl::test {

/// Records a system call of the traced process.
struct Call {
  unsigned long long number = 0;
  long long result = 0;
  std::string path;    ///< of its first argument: the open file's path, or the given name
  std::string second;  ///< for rename: the new name
  std::string bytes;   ///< for write: the bytes written
  int flags = 0;       ///< for openat
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
  std::size_t fail_at = kNever;  ///< this call does nothing and returns `error`
  int error = 0;                 ///< EIO, ENOSPC, …
};

Trace run_traced(const std::function<void()>& body, const TraceOptions& options = {});

}  // namespace qrl::test
