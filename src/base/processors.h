// Owns the number of processors that this process may use.
#pragma once

namespace qrl::base {

/// Returns the number of processors that this process may run on, 1 or more. A CPU quota of its control group lowers it
/// to the quota, rounded up.
int usable_processors();

}  // namespace qrl::base
