#include "base/memory.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/cgroup.h"

namespace qrl::base {

namespace {

std::uint64_t meminfo_bytes(const std::string& name) {
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word;) {
    std::uint64_t kib = 0;
    if (word == name + ":" && in >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace

MemoryLimit memory_limit() {
  MemoryLimit limit{meminfo_bytes("MemTotal"), "this machine's memory", meminfo_bytes("MemAvailable")};
  const std::optional<std::uint64_t> group = memory_limit_bytes();
  if (group && (limit.bytes == 0 || *group < limit.bytes)) {
    limit.bytes = *group;
    limit.what = "the memory limit of this process's control group";
  }
  limit.free_bytes = std::min(limit.free_bytes, limit.bytes);
  return limit;
}

}  // namespace qrl::base
