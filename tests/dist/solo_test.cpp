#include <array>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "dist/collectives.h"
#include "dist/join.h"
#include "support/catch.h"

using namespace qrl::dist;

namespace {

/// Sets one environment variable for as long as it lives, and hides every launcher that may have started the tests.
class Environment {
 public:
  Environment(const std::string& name, const char* value) {
    for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "PMIX_RANK"}) {
      unsetenv(variable);
    }
    if (!name.empty()) setenv(name.c_str(), value, 1);
    name_ = name;
  }
  ~Environment() {
    if (!name_.empty()) unsetenv(name_.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::string name_;
};

}  // namespace

TEST_CASE("one process is its own world") {
  const auto world = make_solo();
  CHECK(world->rank() == 0);
  CHECK(world->size() == 1);
  CHECK(world->local_size() == 1);
  CHECK(world->is_first());
  world->barrier();

  std::array<float, 3> values = {1.5F, -2.0F, std::numeric_limits<float>::infinity()};
  const auto before = values;
  world->all_reduce_sum(values);
  CHECK(values == before);
  std::array<float, 3> mine = {};
  world->reduce_scatter_sum(values, mine);
  CHECK(mine == before);
  std::array<float, 3> all = {};
  world->all_gather(mine, all);
  CHECK(all == before);
  CHECK(world->all_gather(std::string("a\0b", 3)) == std::vector<std::string>{std::string("a\0b", 3)});
  CHECK(world->any(true));
  CHECK_FALSE(world->any(false));
}

TEST_CASE("wrong sizes and roots are refused") {
  const auto world = make_solo();
  std::array<float, 3> three = {};
  std::array<float, 2> two = {};
  CHECK_THROWS_AS(world->reduce_scatter_sum(three, two), qrl::base::Error);
  CHECK_THROWS_AS(world->all_gather(two, three), qrl::base::Error);
  CHECK_THROWS_AS(world->broadcast({}, 1), qrl::base::Error);
}

TEST_CASE("the launcher is read from the environment") {
  {
    const Environment none("", nullptr);
    CHECK(find_launch().num_ranks == 1);
    CHECK(make_world(nullptr, nullptr)->size() == 1);
  }
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const Environment two(variable, "2");
    CHECK(find_launch().num_ranks == 2);
    CHECK(find_launch().variable == variable);
  }
  {
    const Environment unknown("PMIX_RANK", "0");
    CHECK(find_launch().num_ranks == 0);
  }
  for (const char* wrong : {"", "0", "-3", "two", "2x", "99999999999999999999"}) {
    const Environment bad("OMPI_COMM_WORLD_SIZE", wrong);
    CHECK_THROWS_AS(find_launch(), qrl::base::Error);
  }
  const Environment one("OMPI_COMM_WORLD_SIZE", "1");
  CHECK(make_world(nullptr, nullptr)->size() == 1);
}
