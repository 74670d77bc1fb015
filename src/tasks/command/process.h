// Owns one child process: its pipes, limits, process group and end. Knows nothing of what the lines over them mean.
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

/// A program in a process group of its own, with pipes for its standard streams: ours do not block. It has default
/// signals, writes no core, and inherits no other file. Destroying it ends the whole group.
class Process {
 public:
  /// Throws an input error when the program cannot be started.
  explicit Process(const Program& program);
  ~Process() { kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  int input() const { return in_.get(); }
  int output() const { return out_.get(); }
  int errors() const { return err_.get(); }
  void close_input() { in_.reset(); }
  void close_errors() { err_.reset(); }
  /// Whether the program itself has ended; its group may live on.
  bool has_ended() const;
  /// Kills what is left of the group and collects the program; how that ended: "exit code 1", "signal 11 (Segmentation
  /// fault)". Nothing but that answer when called again.
  std::string kill();

 private:
  pid_t pid_ = -1;
  Fd in_, out_, err_;
  std::string end_;
};

/// The file that `name` means: a path, taken from `folder`, or the first executable of that name in PATH. Throws an
/// input error that names reward.command.
std::string find_program(const std::string& name, const std::string& folder);

}  // namespace qrl::tasks
