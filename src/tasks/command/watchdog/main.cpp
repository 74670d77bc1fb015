// Owns the watchdog process between a run and a reward.command's worker. It kills all the worker's processes on the
// run's request, or one second after the run ends. It inherits every orphaned descendant (subreaper).
//
// usage: watchdog MEMORY_BYTES FOLDER PROGRAM [ARGUMENT ...]. Inherits the standard streams, which it leaves to
// PROGRAM, and a socket to the run (note.h). Uses only the C library.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>

#include "tasks/command/watchdog/note.h"

namespace {

using qrl::tasks::kWatchdogSocket;
using qrl::tasks::WatchdogNote;

/// Gives the program time to exit by itself once its input ends.
constexpr double kPatience_s = 1;
constexpr long kMostPause_ms = 100;

void tell(WatchdogNote::Kind kind, int value) {
  const WatchdogNote note{kind, value};
  (void)send(kWatchdogSocket, &note, sizeof note, MSG_NOSIGNAL);  // the run may have ended
}

double now_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Executes the program in its own process group. If the watchdog dies, the program gets SIGKILL. On failure writes
/// errno to `failed`.
[[noreturn]] void become_program(char** arguments, pid_t watchdog, int failed) {
  for (int number = 1; number <= SIGRTMAX; ++number) (void)std::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != watchdog) _exit(1);
  const rlim_t memory = std::strtoull(arguments[0], nullptr, 10);
  const rlimit most{memory, memory};
  if (memory > 0) (void)setrlimit(RLIMIT_AS, &most);  // fails if the limit was already lower
  if (arguments[1][0] == '\0' || chdir(arguments[1]) == 0) execve(arguments[2], arguments + 2, environ);
  const int error = errno;
  if (write(failed, &error, sizeof error) < 0) _exit(1);
  _exit(127);
}

/// Returns whether the process `name` of /proc is a child of this one. Sets `leads` if the child leads a process group.
bool is_child(const char* name, bool& leads) {
  char path[32], text[512];
  std::snprintf(path, sizeof path, "/proc/%.16s/stat", name);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  text[size > 0 ? size : 0] = '\0';
  const char* name_end = std::strrchr(text, ')');
  int parent = 0, group = 0;
  if (name_end == nullptr || std::sscanf(name_end + 1, " %*c %d %d", &parent, &group) != 2) return false;
  leads = group == std::atoi(name);
  return parent == getpid();
}

/// Kills this process's children and the process groups that they lead. Only this process reaps them, so their ids are
/// not reused.
void kill_children() {
  DIR* const all = opendir("/proc");
  if (all == nullptr) return;
  while (const dirent* entry = readdir(all)) {
    bool leads = false;
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !is_child(entry->d_name, leads)) continue;
    const pid_t child = std::atoi(entry->d_name);
    if (leads) kill(-child, SIGKILL);
    kill(child, SIGKILL);
  }
  closedir(all);
}

/// Reaps ended children. Returns false if no child is left.
bool collect() {
  pid_t child = 0;
  do child = waitpid(-1, nullptr, WNOHANG);
  while (child > 0 || (child < 0 && errno == EINTR));
  return child == 0;
}

void wait_for_child(long most_ms) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  const timespec most{most_ms / 1000, most_ms % 1000 * 1'000'000};
  (void)sigtimedwait(&ends, nullptr, &most);
}

/// Kills all descendants until none is left. `program`: the unreaped leader of a group, or 0.
[[noreturn]] void end_all(pid_t program) {
  if (program > 0) kill(-program, SIGKILL);
  for (long pause_ms = 1;; pause_ms = pause_ms < kMostPause_ms ? 2 * pause_ms : kMostPause_ms) {
    kill_children();
    if (!collect()) _exit(0);
    wait_for_child(pause_ms);
  }
}

[[noreturn]] void end_after_run() {
  const double end_s = now_s() + kPatience_s;
  while (now_s() < end_s) {
    if (!collect()) _exit(0);
    wait_for_child(10);
  }
  end_all(0);
}

/// Reaps ended orphans and reports the program's end to the run. Does not reap the program, so that its id stays
/// reserved for its group.
bool has_ended(pid_t program) {
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return false;
    if (info.si_pid == program) {
      const bool by_itself = info.si_code == CLD_EXITED;
      tell(by_itself ? WatchdogNote::Kind::exited : WatchdogNote::Kind::signaled, info.si_status);
      return true;
    }
    waitpid(info.si_pid, nullptr, 0);  // has already ended
  }
}

[[noreturn]] void watch(pid_t program, int ends) {
  bool ended = false;
  for (;;) {
    pollfd files[] = {{kWatchdogSocket, POLLIN, 0}, {ends, POLLIN, 0}};
    (void)poll(files, ended ? 1 : 2, -1);
    signalfd_siginfo one{};
    if (!ended && files[1].revents != 0 && read(ends, &one, sizeof one) > 0) ended = has_ended(program);
    if (files[0].revents == 0) continue;
    char byte = 0;
    const ssize_t size = recv(kWatchdogSocket, &byte, 1, MSG_DONTWAIT);
    if (size > 0) end_all(program);
    if (size == 0 || (errno != EAGAIN && errno != EINTR)) end_after_run();
  }
}

pid_t start(char** arguments) {
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) return -1;
  const pid_t watchdog = getpid(), program = fork();
  if (program == 0) become_program(arguments, watchdog, failure[1]);
  const int fork_error = errno;
  close(failure[1]);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (nothing < 0 || dup2(nothing, stream) < 0) close(stream);
  }
  int error = 0;
  if (program > 0 && read(failure[0], &error, sizeof error) != sizeof error) error = 0;
  close(failure[0]);
  if (program > 0 && error != 0) waitpid(program, nullptr, 0);  // has already ended
  errno = program > 0 ? error : fork_error;
  return error != 0 ? -1 : program;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  close(qrl::tasks::kWatchdogProgram);
  fcntl(kWatchdogSocket, F_SETFD, FD_CLOEXEC);
  prctl(PR_SET_NAME, "qrl-watchdog");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM})
    (void)std::signal(number, SIG_IGN);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  const int file = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
  const pid_t program = start(argv + 1);
  if (program < 0) {
    tell(WatchdogNote::Kind::refused, errno);
    _exit(0);
  }
  tell(WatchdogNote::Kind::started, program);
  (void)!chdir("/");  // keeps no folder in use
  watch(program, file);
}
