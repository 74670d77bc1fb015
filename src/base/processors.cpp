#include "base/processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/cgroup.h"

namespace qrl::base {

int usable_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const long configured = std::clamp<long>(sysconf(_SC_NPROCESSORS_CONF), 1, CPU_SETSIZE);
  const int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? std::max(1, CPU_COUNT(&allowed))
                                                                        : static_cast<int>(configured);
  const std::optional<double> quota = cpu_quota();
  return quota && *quota < count ? std::max(1, static_cast<int>(std::ceil(*quota))) : count;
}

}  // namespace qrl::base
