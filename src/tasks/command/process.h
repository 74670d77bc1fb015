#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace qrl::tasks {

inline constexpr const char* kCommandKey = "reward.command";  ///< in errors of src/tasks/command

struct Program {
  std::vector<std::string> argv;         ///< argv[0]: an executable's path
  std::string folder;                    ///< "": the current one
  std::vector<std::string> environment;  ///< NAME=VALUE
  std::int64_t memory_bytes = 0;         ///< limit of address space; 0: none
};

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

/// A pipe that children do not inherit.
struct Pipe {
  Fd read, write;
};
Pipe make_pipe();

/// Runs a program under a watchdog (watchdog/main.cpp), with non-blocking pipes to its standard streams. The program
/// has its own process group, default signals, no core file and no other descriptors. At destruction, or when this
/// process ends, the program and all processes that it started are killed, in any process group or session.
class Process {
 public:
  /// Throws an input error if the program cannot be started.
  explicit Process(const Program& program);
  ~Process() { kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int input() const { return in_.get(); }
  int output() const { return out_.get(); }
  int errors() const { return err_.get(); }
  void close_input() { in_.reset(); }
  void close_errors() { err_.reset(); }
  /// Returns whether the program has ended; its child processes may still run.
  bool has_ended() const;
  /// Kills the program and its processes, waits at most 4 s, and returns how it ended: "exit code 1", "signal 11
  /// (Segmentation fault)". Later calls return the same text.
  std::string kill();

 private:
  void require_start(const Program& program);

  pid_t watchdog_ = -1;
  Fd in_, out_, err_;
  Fd notes_;
  std::string end_;
};

/// Returns the program's path: `name` relative to `folder`, or PATH's first executable of that name. Throws an input
/// error that names reward.command.
std::string find_program(const std::string& name, const std::string& folder);

}  // namespace qrl::tasks
