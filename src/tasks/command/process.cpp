#include "tasks/command/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/shipped_files.h"
#include "base/spawn.h"
#include "base/text.h"
#include "tasks/command/watchdog/note.h"

namespace qrl::tasks {

namespace {

constexpr double kStart_s = 60, kEnd_s = 2;

std::string described(const WatchdogNote& end) {
  if (end.kind == WatchdogNote::Kind::exited) return "exit code " + std::to_string(end.value);
  return "signal " + std::to_string(end.value) + " (" + strsignal(end.value) + ")";
}

void set_non_blocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

/// Duplicates a descriptor to a number above all numbers that the child uses.
Fd out_of_the_way(const Fd& fd) {
  constexpr int kFirst = 16;
  const int copy = fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirst);
  QRL_INVARIANT(copy >= 0, "pipe", "a pipe", std::strerror(errno), "raise ulimit -n");
  return Fd(copy);
}

struct Pipe {
  Fd read, write;
};
Pipe make_pipe() {
  int ends[2];
  QRL_INVARIANT(pipe2(ends, O_CLOEXEC) == 0, "pipe", "a pipe", std::strerror(errno), "raise ulimit -n");
  return {Fd(ends[0]), Fd(ends[1])};
}

/// Returns a socket pair: this process's end, then the watchdog's.
std::pair<Fd, Fd> make_socket() {
  int ends[2];
  QRL_INVARIANT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "socketpair", "a pair of sockets",
                std::strerror(errno), "raise ulimit -n");
  return {Fd(ends[0]), Fd(ends[1])};
}

const Fd& watchdog_file() {
  static const Fd file = [] {
    std::string_view program = watchdog_files().front().text;
    Fd made(memfd_create("qrl-watchdog", MFD_CLOEXEC));
    while (made.is_open() && !program.empty()) {
      const ssize_t size = ::write(made.get(), program.data(), program.size());
      if (size <= 0) break;
      program.remove_prefix(static_cast<std::size_t>(size));
    }
    QRL_INVARIANT(program.empty(), "a worker", "16 KiB of memory for its watchdog (memfd_create)", std::strerror(errno),
                  "raise ulimit -f, ulimit -n");
    return out_of_the_way(made);
  }();
  return file;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// Returns false at the deadline.
bool wait_for(int fd, short events, double end_s) {
  for (;;) {
    pollfd file{fd, events, 0};
    const double left_s = std::max(0.0, end_s - base::now_s());
    const int num = poll(&file, 1, static_cast<int>(std::ceil(left_s * 1000)));
    if (num > 0) return true;
    if (num == 0 || errno != EINTR) return false;
  }
}

constexpr std::string_view kPythonPath = "PYTHONPATH";

constexpr auto kNames = std::to_array<std::string_view>({"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV",
                                                         "CONDA_PREFIX", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"});
constexpr auto kBeginnings = std::to_array<std::string_view>({"LC_", "PYTHON", "SSL_CERT_", "OMP_", "QRL_"});

bool is_handed_on(std::string_view name) {
  const auto begins = [&](std::string_view start) { return name.starts_with(start); };
  return std::ranges::find(kNames, name) != kNames.end() || std::ranges::any_of(kBeginnings, begins) ||
         name.ends_with("_proxy") || name.ends_with("_PROXY");
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

Process::Process(const Program& program) : key_(program.section + ".command") {
  Pipe in = make_pipe(), out = make_pipe(), err = make_pipe();
  auto [notes, watchdogs] = make_socket();
  const std::pair<Fd, int> given[] = {{out_of_the_way(in.read), STDIN_FILENO},
                                      {out_of_the_way(out.write), STDOUT_FILENO},
                                      {out_of_the_way(err.write), STDERR_FILENO},
                                      {out_of_the_way(watchdogs), kWatchdogSocket},
                                      {out_of_the_way(watchdog_file()), kWatchdogProgram}};
  base::SpawnPlan plan;
  for (const auto& [fd, number] : given) posix_spawn_file_actions_adddup2(&plan.actions, fd.get(), number);
#if __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&plan.actions, kWatchdogProgram + 1);
#endif
  const std::string memory = std::to_string(program.memory_bytes);
  std::vector<std::string> words = {"qrl-watchdog", memory, program.folder};
  words.insert(words.end(), program.argv.begin(), program.argv.end());
  const std::vector<char*> argv = pointers_to(words), environment = pointers_to(program.environment);
  const std::string file = "/proc/self/fd/" + std::to_string(kWatchdogProgram);
  const int error =
      posix_spawn(&watchdog_, file.c_str(), &plan.actions, &plan.attributes, argv.data(), environment.data());
  if (error != 0) watchdog_ = -1;
  QRL_INVARIANT(error == 0, key_, "its watchdog to start from a memory file (memfd_create)", std::strerror(error),
                "allow it: sysctl vm.memfd_noexec=0, a larger ulimit -u");
  in_ = std::move(in.write);
  out_ = std::move(out.read);
  err_ = std::move(err.read);
  notes_ = std::move(notes);
  for (const int fd : {in_.get(), out_.get(), err_.get()}) set_non_blocking(fd);
  watchdogs.reset();
  require_start(program);
}

void Process::require_start(const Program& program) {
  const std::string what =
      base::quoted(program.argv[0], 200) + (program.folder.empty() ? "" : " in " + base::quoted(program.folder, 200));
  WatchdogNote note;
  const bool is_there = wait_for(notes_.get(), POLLIN, base::now_s() + kStart_s) &&
                        recv(notes_.get(), &note, sizeof note, MSG_DONTWAIT) == sizeof note;
  if (is_there && note.kind == WatchdogNote::Kind::started) return;
  const std::string got =
      !is_there ? "no start within " + std::to_string(static_cast<int>(kStart_s)) + " s" : std::strerror(note.value);
  kill();
  base::fail_input(key_, "a program that starts", what + ": " + got);
}

bool Process::has_ended() const {
  WatchdogNote note;
  return recv(notes_.get(), &note, sizeof note, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR);
}

std::string Process::kill() {
  if (watchdog_ < 0) return end_;
  WatchdogNote end;
  const bool by_itself = recv(notes_.get(), &end, sizeof end, MSG_DONTWAIT) == sizeof end;
  end_ = by_itself ? described(end) : "killed";
  ::kill(watchdog_, SIGCONT);  // the program may have stopped the watchdog
  (void)::send(notes_.get(), "k", 1, MSG_NOSIGNAL);
  const double end_s = base::now_s() + kEnd_s;
  const bool all_ended = wait_for(notes_.get(), 0, end_s);
  while (waitpid(watchdog_, nullptr, WNOHANG) == 0 && base::now_s() < end_s + (all_ended ? kEnd_s : 0)) usleep(200);
  if (!all_ended) base::log_warning(key_ + ": processes of a worker do not end; its watchdog waits for them");
  watchdog_ = -1;
  in_.reset();
  out_.reset();
  return end_;
}

std::string find_program(const std::string& name, const std::string& folder, const std::string& section) {
  const std::string key = section + ".command";
  const auto runs = [](const std::filesystem::path& file) {
    std::error_code error;
    return std::filesystem::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    const std::filesystem::path file = std::filesystem::path(folder) / name;
    QRL_REQUIRE(runs(file), key, "a program", base::quoted(file.string(), 200) + ", which cannot be executed",
                "name a file relative to the recipe, or a program in PATH");
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
  base::fail_input(key, "a program", base::quoted(name) + ", which is not in PATH (" + path + ")",
                   "install it, or name its file");
}

ProgramEnvironment program_environment(const std::vector<std::string>& names, const std::string& section) {
  ProgramEnvironment all;
  for (const std::string& name : names)
    QRL_REQUIRE(std::getenv(name.c_str()) != nullptr, section + ".env", "names of environment variables that are set",
                name, "export " + name + ", or remove it from the list");
  std::string path = base::shipped_folder("apps/python", "python", "qrl_reward.py");
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text = *one, name = text.substr(0, text.find('='));
    const bool is_named = std::ranges::find(names, name) != names.end();
    if (name == kPythonPath) {
      const std::string_view value = text.substr(std::min(name.size() + 1, text.size()));
      if (!value.empty()) path += (path.empty() ? "" : ":") + std::string(value);
    } else if (is_named || is_handed_on(name)) {
      all.variables.emplace_back(text);
    } else {
      all.withheld.emplace_back(name);
    }
  }
  if (!path.empty()) all.variables.push_back(std::string(kPythonPath) + "=" + path);
  std::ranges::sort(all.withheld);
  return all;
}

}  // namespace qrl::tasks
