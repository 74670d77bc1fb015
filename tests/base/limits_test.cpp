// Tests limits of control groups on synthetic kernel files of version 1, version 2 and containers.
#include "base/limits.h"

#include <fstream>

#include "support/catch.h"
#include "support/files.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

/// Builds a root with /proc/self/mountinfo, /proc/self/cgroup and files of control groups.
struct Root {
  Root(const std::string& mounts, const std::string& groups) {
    put("proc/self/mountinfo", "22 1 0:4 / /proc rw - proc proc rw\n" + mounts);
    put("proc/self/cgroup", groups);
  }
  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((dir / name).parent_path());
    std::ofstream(dir / name) << text;
  }
  test::TempDir dir;
};

constexpr const char* kV2 = "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kV1 =
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

}  // namespace

TEST_CASE("limits: cgroup version 2 takes the least quota and limit of the group and its parents") {
  const Root root(kV2, "0::/user/job\n");
  CHECK_FALSE(base::cpu_quota(root.dir.path()));
  root.put("sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
  root.put("sys/fs/cgroup/user/job/memory.max", "max\n");
  CHECK_FALSE(base::cpu_quota(root.dir.path()));
  CHECK_FALSE(base::memory_limit_bytes(root.dir.path()));
  root.put("sys/fs/cgroup/user/job/cpu.max", "250000 100000\n");
  root.put("sys/fs/cgroup/user/job/memory.max", "5000000000\n");
  CHECK(base::cpu_quota(root.dir.path()) == 2.5);
  CHECK(base::memory_limit_bytes(root.dir.path()) == 5'000'000'000U);
  root.put("sys/fs/cgroup/user/cpu.max", "150000 100000\n");
  root.put("sys/fs/cgroup/user/memory.max", "4000000000\n");
  CHECK(base::cpu_quota(root.dir.path()) == 1.5);
  CHECK(base::memory_limit_bytes(root.dir.path()) == 4'000'000'000U);
}

TEST_CASE("limits: cgroup version 1 reads one hierarchy a controller, and the kernel's largest number is no limit") {
  const Root root(kV1, "4:memory:/docker/1\n1:cpu,cpuacct:/docker/1\n0::/\n");
  root.put("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "-1\n");
  root.put("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n");
  root.put("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK_FALSE(base::cpu_quota(root.dir.path()));
  CHECK_FALSE(base::memory_limit_bytes(root.dir.path()));
  root.put("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "50000\n");
  root.put("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "1073741824\n");
  CHECK(base::cpu_quota(root.dir.path()) == 0.5);
  CHECK(base::memory_limit_bytes(root.dir.path()) == 1'073'741'824U);
}

TEST_CASE("limits: a container that sees only its own group finds its limits at the root of the mount") {
  const Root root("40 31 0:32 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "4:memory:/docker/1\n");
  root.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000000\n");
  CHECK(base::memory_limit_bytes(root.dir.path()) == 2'000'000'000U);
  const Root other("30 22 0:26 /../.. /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n", "0::/\n");
  other.put("sys/fs/cgroup/memory.max", "3000000000\n");
  other.put("sys/fs/cgroup/cpu.max", "100000 100000\n");
  CHECK(base::memory_limit_bytes(other.dir.path()) == 3'000'000'000U);
  CHECK(base::cpu_quota(other.dir.path()) == 1.0);
}

TEST_CASE("limits: default thread count is at most the CPU quota of the control group") {
  CHECK(base::usable_processors() >= 1);
  const std::optional<double> quota = base::cpu_quota();
  if (quota) CHECK(base::usable_processors() < *quota + 1);
}
