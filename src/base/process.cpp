#include "base/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace qrl::base {

void shorten_spins(int, char** argv, char** environment) {
  std::size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    for (const char* name : {"GOMP_SPINCOUNT=", "OMP_WAIT_POLICY="})
      if (std::strncmp(environment[count], name, std::strlen(name)) == 0) return;
  }
  static char spins[] = "GOMP_SPINCOUNT=2000";
  auto** extended = static_cast<char**>(__builtin_alloca((count + 2) * sizeof(char*)));
  std::memcpy(extended, environment, count * sizeof(char*));
  extended[count] = spins;
  extended[count + 1] = nullptr;
  execve("/proc/self/exe", argv, extended);
  // Without /proc, the program continues, slower on a busy machine.
}

void restore_library_path() {
  constexpr const char* kNote = "QRL_LIBRARY_PATH_BEFORE";
  const char* before = std::getenv(kNote);
  if (before == nullptr) return;
  if (*before != '\0') setenv("LD_LIBRARY_PATH", before, 1);
  else unsetenv("LD_LIBRARY_PATH");
  unsetenv(kNote);
}

void skip_library_destructors() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // Exit handlers run in reverse order of registration: this one runs before those of libraries, and _exit skips them.
  on_exit(
      [](int exit_code, void*) {
        std::cout.flush();
        std::clog.flush();
        std::fflush(nullptr);
        _exit(exit_code);
      },
      nullptr);
#endif
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

std::string read_all(int fd) {
  std::string text;
  char piece[4096];
  for (;;) {
    const ssize_t size = ::read(fd, piece, sizeof piece);
    if (size > 0) text.append(piece, static_cast<std::size_t>(size));
    else if (size == 0 || errno != EINTR) return text;
  }
}

}  // namespace qrl::base
