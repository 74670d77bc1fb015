#include "tasks/command/watchdog.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include "base/error.h"
#include "tasks/command/sigpipe.h"

extern char** environ;

namespace qrl::tasks {

namespace {

/// A second after the end of standard input: programs that end by themselves have ended by then.
constexpr const char* kScript = R"(trap '' HUP INT TERM USR1 PIPE
groups=
while read -r sign group; do
  left=
  for one in $groups; do [ "$one" = "$group" ] || left="$left $one"; done
  groups=$left
  [ "$sign" = - ] || groups="$groups $group"
done
[ -n "$groups" ] || exit 0
sleep 1
for one in $groups; do kill -s KILL -- "-$one"; done)";

}  // namespace

Watchdog::Watchdog() {
  Pipe pipe = make_pipe();
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe.read.get(), STDIN_FILENO);
  // It outlives the run: who reads the run's output must not wait for it.
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addchdir_np(&actions, "/");
#if __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
#endif
  posix_spawnattr_t attributes{};
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  char* argv[] = {const_cast<char*>("sh"), const_cast<char*>("-c"), const_cast<char*>(kScript), nullptr};
  const int error = posix_spawn(&pid_, "/bin/sh", &actions, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  QRL_INVARIANT(error == 0, "/bin/sh", "a shell that starts", std::strerror(error));
  input_ = std::move(pipe.write);
}

Watchdog::~Watchdog() {
  input_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

void Watchdog::tell(char sign, pid_t group) const {
  const NoSigpipe quiet;
  const std::string line = std::string(1, sign) + " " + std::to_string(group) + "\n";
  if (::write(input_.get(), line.data(), line.size()) < 0) return;  // it was killed: then only our own end is left
}

}  // namespace qrl::tasks
