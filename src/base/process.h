#pragma once

#include <sys/types.h>

#include <string>

namespace qrl::base {

/// Executes the program again with a short GOMP_SPINCOUNT, unless that variable or OMP_WAIT_POLICY is set. By default,
/// libgomp's threads spin for milliseconds between parallel regions. On a busy machine, spinning takes up to 20 times
/// as long as the work. Call this function in .preinit_array: only libgomp's initializer reads the variables.
void shorten_spins(int argc, char** argv, char** environment);

/// Lets the process exit without the destructors of libraries and of static objects made before this call. Flushes the
/// standard streams. No effect under a sanitizer.
void skip_library_destructors();

/// Restores LD_LIBRARY_PATH for child processes from QRL_LIBRARY_PATH_BEFORE, if set. The Python package's console
/// script saves the path in this variable before extending it.
void restore_library_path();

/// Waits for a child process. Returns its status as waitpid has it.
int wait_for(pid_t child);

/// Reads from a descriptor up to its end, or up to an error.
std::string read_all(int fd);

}  // namespace qrl::base
