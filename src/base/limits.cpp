#include "base/limits.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace qrl::base {

namespace {

namespace fs = std::filesystem;

/// Describes a mounted control-group hierarchy of /proc/self/mountinfo (proc_pid_mountinfo(5)).
struct Hierarchy {
  std::string root;  ///< path of the control group that is mounted
  fs::path place;
  bool is_v2 = false;
  std::string options;  ///< in version 1, includes the names of the controllers
};

bool lists(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

std::vector<Hierarchy> hierarchies(const fs::path& root) {
  std::vector<Hierarchy> all;
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string id, parent, device, mounted, place, word, type, source, options;
    words >> id >> parent >> device >> mounted >> place;
    while (words >> word && word != "-") continue;
    words >> type >> source >> options;
    if (type == "cgroup" || type == "cgroup2") all.push_back({mounted, place, type == "cgroup2", options});
  }
  return all;
}

/// Returns the process's control group in the hierarchy with `controller`, from /proc/self/cgroup (cgroups(7)).
std::optional<std::string> group_of(const fs::path& root, bool is_v2, const std::string& controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (is_v2 ? controllers.empty() : lists(controllers, controller)) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// Visits the folders of the process's control group and its mounted ancestors, in each hierarchy with the controller.
template <class Visit>
void visit_groups(const fs::path& root, const std::string& controller, const Visit& visit) {
  for (const Hierarchy& hierarchy : hierarchies(root)) {
    if (!hierarchy.is_v2 && !lists(hierarchy.options, controller)) continue;
    const std::optional<std::string> group = group_of(root, hierarchy.is_v2, controller);
    if (!group) continue;
    // A container may see only its own group, which is then the hierarchy's root.
    fs::path below = fs::path(*group).lexically_relative(hierarchy.root);
    if (below.empty() || *below.begin() == "..") below = ".";
    const fs::path top = (root / hierarchy.place.relative_path()).lexically_normal();
    fs::path folder = (top / below).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();
    for (;; folder = folder.parent_path()) {
      visit(folder, hierarchy.is_v2);
      if (folder == top || !folder.has_relative_path()) break;
    }
  }
}

/// Returns the number at the start of a file. Returns nothing if the file is missing or starts with a word ("max").
std::optional<double> first_number(const fs::path& file) {
  std::ifstream in(file);
  double number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

template <class T>
void lower(std::optional<T>& least, T value) {
  least = least ? std::min(*least, value) : value;
}

std::uint64_t meminfo_bytes(const std::string& name) {
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word;) {
    std::uint64_t kib = 0;
    if (word == name + ":" && in >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> least;
  visit_groups(root, "cpu", [&](const fs::path& folder, bool is_v2) {
    double quota = 0, period = 0;
    if (is_v2) {
      std::ifstream in(folder / "cpu.max");
      if (!(in >> quota >> period)) return;
    } else {
      quota = first_number(folder / "cpu.cfs_quota_us").value_or(-1);
      period = first_number(folder / "cpu.cfs_period_us").value_or(0);
    }
    if (quota > 0 && period > 0) lower(least, quota / period);
  });
  return least;
}

std::optional<std::uint64_t> memory_limit_bytes(const fs::path& root) {
  constexpr double kNoLimit = 9e18;  // version 1 reports "no limit" as the largest number of whole pages
  std::optional<std::uint64_t> least;
  visit_groups(root, "memory", [&](const fs::path& folder, bool is_v2) {
    const auto limit = first_number(folder / (is_v2 ? "memory.max" : "memory.limit_in_bytes"));
    if (limit && *limit > 0 && *limit < kNoLimit) lower(least, static_cast<std::uint64_t>(*limit));
  });
  return least;
}

int usable_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const long configured = std::clamp<long>(sysconf(_SC_NPROCESSORS_CONF), 1, CPU_SETSIZE);
  const int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? std::max(1, CPU_COUNT(&allowed))
                                                                        : static_cast<int>(configured);
  const std::optional<double> quota = cpu_quota();
  return quota && *quota < count ? std::max(1, static_cast<int>(std::ceil(*quota))) : count;
}

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
