#include <array>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "dist/collectives.h"
#include "dist/messages.h"
#include "support/catch.h"

using namespace qrl::dist;

namespace {

/// Sets one environment variable during its lifetime, and hides the variables of any launcher that started the tests.
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

TEST_CASE("one process: collectives work in a world of size 1") {
  const auto world = make_solo();
  CHECK(world->rank() == 0);
  CHECK(world->size() == 1);
  CHECK(world->local_size() == 1);
  CHECK(world->local_rank() == 0);
  CHECK(world->is_first());
  world->barrier();

  std::array<float, 3> values = {1.5F, -2.0F, std::numeric_limits<float>::infinity()};
  const auto before = values;
  world->all_reduce_sum(values);
  CHECK(values == before);
  const std::array<Part, 2> parts = {Part{2, 1, 0}, Part{0, 2, 0}};
  world->reduce_scatter_sum(values, parts);
  CHECK(values == before);
  world->all_gather(std::as_writable_bytes(std::span(values)), parts);
  CHECK(values == before);
  CHECK(world->all_gather(std::string("a\0b", 3)) == std::vector<std::string>{std::string("a\0b", 3)});
  CHECK(world->any(true));
  CHECK_FALSE(world->any(false));
}

TEST_CASE("one process: wrong parts and roots are refused") {
  const auto world = make_solo();
  std::array<float, 3> three = {};
  for (const Part& wrong :
       {Part{0, 4, 0}, Part{3, 1, 0}, Part{4, 0, 0}, Part{1, SIZE_MAX, 0}, Part{0, 1, 1}, Part{0, 1, -1}}) {
    CHECK_THROWS_AS(world->reduce_scatter_sum(three, {&wrong, 1}), qrl::base::Error);
    CHECK_THROWS_AS(world->all_gather(std::as_writable_bytes(std::span(three)).first(3), {&wrong, 1}),
                    qrl::base::Error);
  }
  CHECK_THROWS_AS(world->broadcast({}, 1), qrl::base::Error);
}

TEST_CASE("load balance: loads are divided evenly, largest first") {
  const std::array<double, 6> loads = {1, 8, 3, 3, 2, 2};
  CHECK(share_out(loads, 1) == std::vector<int>(6, 0));
  CHECK(share_out(loads, 2) == std::vector<int>{1, 0, 1, 1, 1, 0});
  CHECK(share_out(loads, 8) == std::vector<int>{5, 0, 1, 2, 3, 4});
  CHECK(share_out({}, 2).empty());
}

TEST_CASE("launcher: one that starts many single-process runs is refused") {
  {
    const Environment none("", nullptr);
    CHECK_NOTHROW(require_no_other_launcher());
  }
  for (const char* size : {"0", "1", "", "x"}) {
    const Environment alone("WORLD_SIZE", size);
    CHECK_NOTHROW(require_no_other_launcher());
  }
  {
    const Environment two("WORLD_SIZE", "2");
    CHECK_THROWS_WITH(require_no_other_launcher(),
                      "environment variable WORLD_SIZE: expected 1, or mpirun or srun, got \"2\" and neither; torchrun "
                      "and accelerate start N runs of one process: use --ranks N");
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    CHECK_NOTHROW(require_no_other_launcher());
    unsetenv("OMPI_COMM_WORLD_SIZE");
  }
}

TEST_CASE("launcher: read from the environment") {
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
