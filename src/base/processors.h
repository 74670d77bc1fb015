// Owns how many processors this process may use.
#pragma once

namespace qrl::base {

/// Counts the processors that this process may run on, 1 or more. A quota of their time, its control group's, lowers
/// the number to what it is worth, rounded up.
int usable_processors();

}  // namespace qrl::base
