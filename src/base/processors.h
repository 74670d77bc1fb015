#pragma once

namespace qrl::base {

/// Returns the processors that this process may run on, 1 or more, at most its control group's CPU quota, rounded up.
int usable_processors();

}  // namespace qrl::base
