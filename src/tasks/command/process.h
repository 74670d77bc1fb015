// Owns one program beside the run: its pipes, limits, and its end with all that it started. Knows nothing of what the
// lines over the pipes mean.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace qrl::tasks {

inline constexpr const char* kCommandKey = "reward.command";  ///< the place that this folder's errors name

struct Program {
  std::vector<std::string> argv;         ///< argv[0]: the path of an executable
  std::string folder;                    ///< where it runs; "": here
  std::vector<std::string> environment;  ///< NAME=VALUE
  std::int64_t memory_bytes = 0;         ///< largest address space; 0: no limit
};

/// A file descriptor that is closed with its owner.
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

/// A pipe whose ends no other child inherits.
struct Pipe {
  Fd read, write;
};
Pipe make_pipe();

/// A program below a watchdog (watchdog/main.cpp), with pipes for its standard streams: ours do not block. It has a
/// process group of its own, default signals, writes no core, and inherits no other file. Destroying it ends the
/// program with everything that it started, in whatever group or session. When this process is killed, the watchdog
/// does so.
class Process {
 public:
  /// Throws an input error when the program cannot be started.
  explicit Process(const Program& program);
  ~Process() { kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int input() const { return in_.get(); }
  int output() const { return out_.get(); }
  int errors() const { return err_.get(); }
  void close_input() { in_.reset(); }
  void close_errors() { err_.reset(); }
  /// Returns whether the program itself has ended; what it started may live on.
  bool has_ended() const;
  /// Kills what is left of the program and of what it started, and returns how the program ended: "exit code 1",
  /// "signal 11 (Segmentation fault)". Waits 4 s at most. Returns the same answer, and does nothing, when called again.
  std::string kill();

 private:
  void require_start(const Program& program);

  pid_t watchdog_ = -1;
  Fd in_, out_, err_;
  Fd notes_;  ///< the socket to the watchdog
  std::string end_;
};

/// The file that `name` means: a path, taken from `folder`, or the first executable of that name in PATH. Throws an
/// input error that names reward.command.
std::string find_program(const std::string& name, const std::string& folder);

}  // namespace qrl::tasks
