#include "tasks/command/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace qrl::tasks {

namespace {

std::string described(int status) {
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

void set_non_blocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

/// What posix_spawn is told, freed with its scope.
struct SpawnPlan {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
};

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

void limit(pid_t pid, const Program& program) {
  const rlimit none{0, 0};
  prlimit(pid, RLIMIT_CORE, &none, nullptr);
  if (program.memory_bytes == 0) return;
  const auto most = static_cast<rlim_t>(program.memory_bytes);
  const rlimit memory{most, most};
  prlimit(pid, RLIMIT_AS, &memory, nullptr);
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}
int Fd::release() { return std::exchange(fd_, -1); }
void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Pipe make_pipe() {
  int ends[2];
  QRL_INVARIANT(pipe2(ends, O_CLOEXEC) == 0, "pipe", "a pipe", std::strerror(errno), "raise ulimit -n");
  return {Fd(ends[0]), Fd(ends[1])};
}

Process::Process(const Program& program) {
  Pipe in = make_pipe(), out = make_pipe(), err = make_pipe();
  SpawnPlan plan;
  posix_spawn_file_actions_adddup2(&plan.actions, in.read.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&plan.actions, out.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&plan.actions, err.write.get(), STDERR_FILENO);
  if (!program.folder.empty()) posix_spawn_file_actions_addchdir_np(&plan.actions, program.folder.c_str());
#if __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&plan.actions, STDERR_FILENO + 1);
#endif
  const std::vector<char*> argv = pointers_to(program.argv), environment = pointers_to(program.environment);
  const int error = posix_spawn(&pid_, argv[0], &plan.actions, &plan.attributes, argv.data(), environment.data());
  QRL_REQUIRE(error == 0, kCommandKey, "a program that starts",
              base::quoted(program.argv[0], 200) +
                  (program.folder.empty() ? "" : " in " + base::quoted(program.folder, 200)) + ": " +
                  std::strerror(error));
  limit(pid_, program);
  in_ = std::move(in.write);
  out_ = std::move(out.read);
  err_ = std::move(err.read);
  for (const int fd : {in_.get(), out_.get(), err_.get()}) set_non_blocking(fd);
}

bool Process::has_ended() const {
  siginfo_t info{};
  const int result = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  return result != 0 || info.si_pid == pid_;
}

std::string Process::kill() {
  if (pid_ < 0) return end_;
  const bool by_itself = has_ended();
  // Before the program is collected: until then no other group can have its number.
  ::killpg(pid_, SIGKILL);
  int status = 0;
  pid_t collected = 0;
  do collected = waitpid(pid_, &status, 0);
  while (collected < 0 && errno == EINTR);
  end_ = collected != pid_ ? "its end" : by_itself ? described(status) : "killed";
  pid_ = -1;
  in_.reset();
  out_.reset();
  return end_;
}

std::string find_program(const std::string& name, const std::string& folder) {
  const auto runs = [](const std::filesystem::path& file) {
    std::error_code error;
    return std::filesystem::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    const std::filesystem::path file = std::filesystem::path(folder) / name;
    QRL_REQUIRE(runs(file), kCommandKey, "a program", base::quoted(file.string(), 200) + ", which cannot be executed",
                "its first word is a file, relative to the recipe, or a name to look for in PATH");
    return file.string();
  }
  const char* variable = std::getenv("PATH");
  std::string path = variable == nullptr ? "/usr/bin:/bin" : variable;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::filesystem::path file = std::filesystem::path(path.substr(begin, end - begin)) / name;
    if (end > begin && runs(file)) return file.string();
    begin = end + 1;
  }
  base::fail_input(kCommandKey, "a program", base::quoted(name) + ", which is not in PATH (" + path + ")",
                   "install it, or name its file");
}

}  // namespace qrl::tasks
