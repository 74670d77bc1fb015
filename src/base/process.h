// Owns how a process that is linked with LibTorch begins and ends.
#pragma once

namespace qrl::base {

/// Executes the program again with a short spin count of libgomp (tens of microseconds), unless GOMP_SPINCOUNT or
/// OMP_WAIT_POLICY is set. libgomp's threads spin for milliseconds between parallel regions by default. On a busy
/// machine this costs up to 20 times the work itself: small models have thousands of regions a second. libgomp's
/// initializer reads the count from the environment, so the process must start again. A program registers this function
/// in its .preinit_array: it then runs before LibTorch's initializers, which take 0.2 s. Returns if one of the
/// variables is set, or if the program cannot be executed.
void shorten_spins(int argc, char** argv, char** environment);

/// Lets the process exit without the destructors of libraries and of static objects made before this call. LibTorch's
/// destructors take 0.1 s. Objects made later are destroyed, and the standard streams are flushed. The function does
/// nothing under a sanitizer, which reports at exit.
void skip_library_destructors();

}  // namespace qrl::base
