#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "dist/messages.h"
#include "dist/shared_memory.h"

namespace qrl::dist {
namespace {

using End = SharedMemory::End;

/// Holds this process's rank in a job of start_ranks. In a process that is no such rank, `memory` is null.
struct LocalRank {
  const SharedMemory* memory = nullptr;
  int rank = 0;
};
LocalRank g_local;

void abort_local(int exit_code) {
  g_local.memory->end_of(g_local.rank).store(End::aborted, std::memory_order_release);
  std::_Exit(exit_code);
}

/// Makes the child process a rank with its own process group. A terminal thus signals only the parent, which passes
/// each signal on once.
void become_rank(const SharedMemory* memory, int rank, pid_t parent, const sigset_t& mask) {
  (void)setpgid(0, 0);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) std::_Exit(1);  // the parent ended before prctl
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  if (rank > 0) {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) (void)dup2(nothing, STDIN_FILENO);
    if (nothing > STDIN_FILENO) close(nothing);
  }
  g_local = {memory, rank};
  set_abort(abort_local);
}

class Parent {
 public:
  Parent(const SharedMemory& memory, const sigset_t& watched) : memory_(memory), watched_(watched) {}

  void add(pid_t pid) { pids_.push_back(pid); }

  void end_all() {
    for (pid_t& pid : pids_) {
      if (pid == 0) continue;
      kill(pid, SIGKILL);
      while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
      }
      pid = 0;
    }
  }

  /// Waits until all ranks have ended, or one failed. Returns the first exit code that is not 0, else 0.
  int watch() {
    for (;;) {
      const int number = sigwaitinfo(&watched_, nullptr);
      if (number == SIGTSTP) {
        send_all(SIGSTOP);
        (void)raise(SIGSTOP);
      } else if (number == SIGCHLD) {
        const int exit_code = collect();
        if (exit_code != 0) end_all();
        if (exit_code != 0 || all_ended()) return exit_code;
      } else if (number > 0) {
        if (number != SIGCONT) passed_on_ = number;
        send_all(number);
      }
    }
  }

 private:
  void send_all(int number) const {
    for (const pid_t pid : pids_) {
      if (pid != 0) kill(pid, number);
    }
  }

  bool all_ended() const {
    for (const pid_t pid : pids_) {
      if (pid != 0) return false;
    }
    return true;
  }

  /// Reaps ended ranks. Returns the first code that is not 0, else 0.
  int collect() {
    for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
      int status = 0;
      if (pids_[rank] == 0 || waitpid(pids_[rank], &status, WNOHANG) != pids_[rank]) continue;
      pids_[rank] = 0;
      const int exit_code = judge(static_cast<int>(rank), status);
      if (exit_code != 0) return exit_code;
    }
    return 0;
  }

  /// Prints why a rank ended, unless the rank has printed it or the user sent a signal. Returns the rank's exit code,
  /// or 1 if the rank ended with 0 before the others.
  int judge(int rank, int status) const {
    const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const int exit_code = number != 0 ? 128 + number : WEXITSTATUS(status);
    const End end = memory_.end_of(rank).load(std::memory_order_acquire);
    if (number != 0 && number != passed_on_) {
      say(rank, "was ended by signal " + std::to_string(number) + " (" + strsignal(number) + ")");
    } else if (exit_code == 0 && end != End::together) {
      say(rank, "ended before the other ranks");
      return 1;
    } else if (exit_code != 0 && end == End::none && (passed_on_ == 0 || exit_code != 128 + passed_on_)) {
      say(rank, "ended with exit code " + std::to_string(exit_code));
    }
    return exit_code;
  }

  static void say(int rank, const std::string& what) {
    std::fprintf(stderr, "qrl-train: rank %d %s: the job ends here\n", rank, what.c_str());
  }

  const SharedMemory& memory_;
  sigset_t watched_;
  std::vector<pid_t> pids_;  ///< process ids by rank; 0: ended
  int passed_on_ = 0;        ///< last signal that the user sent; 0: none
};

/// Returns the signals that the parent waits for. Omits SIGHUP if nohup made the process ignore it.
sigset_t watched_signals() {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGUSR1, SIGXCPU, SIGQUIT, SIGTSTP, SIGCONT})
    sigaddset(&watched, number);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&watched, SIGHUP);
  return watched;
}

}  // namespace

void start_ranks(int count) {
  if (count == 1) return;
  const Launch launch = find_launch();
  QRL_REQUIRE(launch.num_ranks == 1, "--ranks", "no launcher (mpirun or srun)",
              "the environment variable " + launch.variable, "start it without mpirun or srun, or without --ranks");
  auto memory = std::make_unique<SharedMemory>(count);
  (void)std::signal(SIGCHLD, SIG_DFL);  // if SIGCHLD is ignored, exit codes are lost
  const sigset_t watched = watched_signals();
  sigset_t mask;
  sigprocmask(SIG_BLOCK, &watched, &mask);
  Parent parent(*memory, watched);
  const pid_t own = getpid();
  for (int rank = 0; rank < count; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) return become_rank(memory.release(), rank, own, mask);
    if (pid < 0) {
      const std::string why = std::strerror(errno);
      parent.end_all();
      sigprocmask(SIG_SETMASK, &mask, nullptr);
      base::fail_input("--ranks", std::to_string(count) + " processes", std::to_string(rank) + " (" + why + ")",
                       "start fewer ranks, or raise ulimit -u");
    }
    parent.add(pid);
  }
  std::_Exit(parent.watch());
}

std::unique_ptr<Collectives> join_local(const Launch& launch) {
  if (g_local.memory == nullptr) return nullptr;
  return make_job(std::make_unique<SharedMessages>(*g_local.memory, g_local.rank), launch.join_limit_s);
}

}  // namespace qrl::dist
