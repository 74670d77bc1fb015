#pragma once

namespace qrl::base {

/// Executes the program again with a short spin count of libgomp, unless GOMP_SPINCOUNT or OMP_WAIT_POLICY is set. By
/// default libgomp's threads spin for milliseconds between parallel regions, which costs up to 20 times the work on a
/// busy machine. Only libgomp's initializer reads the environment: register this function in .preinit_array, before
/// LibTorch's initializers (0.2 s).
void shorten_spins(int argc, char** argv, char** environment);

/// Lets the process exit without the destructors of libraries (LibTorch's take 0.1 s) and of earlier static objects.
/// The standard streams are flushed. No effect under a sanitizer.
void skip_library_destructors();

/// Restores LD_LIBRARY_PATH from QRL_LIBRARY_PATH_BEFORE, its value before the Python package's console script extended
/// it, for child processes. No-op without that variable.
void restore_library_path();

}  // namespace qrl::base
