#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/embedded_file.h"

namespace qrl::tasks {

/// Names the recipe's section of a program in errors: its keys are SECTION.command and SECTION.env.
inline constexpr const char* kRewardSection = "reward";
inline constexpr const char* kEnvironmentSection = "environment";

struct Program {
  std::string section = kRewardSection;
  std::vector<std::string> argv;         ///< argv[0]: an executable's path
  std::string folder;                    ///< working directory; "": the current one
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

/// Returns one embedded file, the watchdog's executable.
std::span<const base::EmbeddedFile> watchdog_files();

/// Runs a program under a watchdog process. The program has non-blocking pipes as standard streams, its own process
/// group, default signals, no core file and no other descriptors. The program and all descendants are killed at
/// destruction, or when this process ends.
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
  /// Kills the program and its processes, waits at most 4 s, and returns how the program ended: "exit code 1", "signal
  /// 11 (Segmentation fault)", "killed".
  std::string kill();

 private:
  void require_start(const Program& program);

  std::string key_;  ///< SECTION.command

  pid_t watchdog_ = -1;
  Fd in_, out_, err_;
  Fd notes_;
  std::string end_;
};

/// Returns a program's path. A `name` with a slash is relative to `folder`; other names are searched in PATH. Throws an
/// input error if no executable is found.
std::string find_program(const std::string& name, const std::string& folder, const std::string& section);

struct ProgramEnvironment {
  std::vector<std::string> variables;  ///< NAME=VALUE
  std::vector<std::string> withheld;   ///< sorted names
};

/// Returns a program's environment: variables that programs need (docs/reference/reward-protocol.md) and `names`
/// (SECTION.env). The user's keys and tokens are withheld. PYTHONPATH begins with the folder of qrl_reward.py. Throws
/// an input error for an unset name.
ProgramEnvironment program_environment(const std::vector<std::string>& names, const std::string& section);

}  // namespace qrl::tasks
