// Owns how a process that was linked with LibTorch begins and ends. Knows nothing of what it does in between.
#pragma once

namespace qrl::base {

/// libgomp's threads spin for milliseconds between parallel regions by default, which on a machine with other work
/// costs up to twenty times the work itself (small models have thousands of regions a second). Its initializer reads
/// the spin count from the environment: unless GOMP_SPINCOUNT or OMP_WAIT_POLICY is set, this executes the program
/// again with a short one (tens of microseconds). Returns when it is set. A program names it in its .preinit_array, so
/// that it is called before the initializers of any library: LibTorch's take 0.2 s.
void shorten_spins(int argc, char** argv, char** environment);

/// Lets the process end before the destructors of libraries and of static objects made before this call: LibTorch's
/// take 0.1 s. What was made later is destroyed, and standard streams are written, as ever. Under a sanitizer, which
/// reports at the very end, it does nothing.
void skip_library_destructors();

}  // namespace qrl::base
