// Owns how a process that is linked with LibTorch begins and ends.
#pragma once

namespace qrl::base {

/// Executes the program again with a short spin count of libgomp, unless GOMP_SPINCOUNT or OMP_WAIT_POLICY is set.
/// libgomp's threads spin for milliseconds between parallel regions by default, which on a busy machine costs up to 20
/// times the work itself. Its initializer reads the count from the environment, so the process must start again. A
/// program registers this function in its .preinit_array, so it runs before LibTorch's initializers (0.2 s). Returns if
/// a variable is set, or if the program cannot be executed.
void shorten_spins(int argc, char** argv, char** environment);

/// Lets the process exit without the destructors of libraries (LibTorch's take 0.1 s) and of static objects made before
/// this call. Later objects are destroyed, and the standard streams are flushed. Does nothing under a sanitizer, which
/// reports at exit.
void skip_library_destructors();

}  // namespace qrl::base
