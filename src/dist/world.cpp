#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "dist/collectives.h"
#include "dist/messages.h"

namespace qrl::dist {

namespace {

class Solo final : public Collectives {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_size() const override { return 1; }
  int local_rank() const override { return 0; }

  void barrier() override {}
  void all_reduce_sum(std::span<float>) override {}
  void all_reduce_sum(std::span<double>) override {}
  void all_reduce_sum(std::span<std::int64_t>) override {}
  void all_reduce_max(std::span<double>) override {}
  void all_reduce_min(std::span<std::int64_t>) override {}
  void reduce_scatter_sum(std::span<float> values, std::span<const Part> parts) override {
    check_parts("reduce_scatter_sum", parts, values.size(), 1);
  }
  void all_gather(std::span<std::byte> bytes, std::span<const Part> parts) override {
    check_parts("all_gather", parts, bytes.size(), 1);
  }
  std::vector<std::string> all_gather(const std::string& mine) override { return {mine}; }
  void broadcast(std::span<std::byte>, int root) override {
    QRL_INVARIANT(root == 0, "broadcast", "root 0 of 1 rank", std::to_string(root));
  }
};

}  // namespace

bool Collectives::any(bool mine) {
  double seen = mine ? 1.0 : 0.0;
  all_reduce_max({&seen, 1});
  return seen > 0.0;
}

std::unique_ptr<Collectives> make_solo() { return std::make_unique<Solo>(); }

namespace {

void (*g_abort)(int exit_code) = nullptr;

std::optional<int> number_in(const char* variable, const char* expected, const char* what_to_do) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value;
  int number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  QRL_REQUIRE(fault == std::errc() && end == text.data() + text.size() && number >= 1,
              std::string("environment variable ") + variable, expected, base::quoted(text), what_to_do);
  return number;
}

}  // namespace

Launch find_launch() {
  Launch launch;
  if (const auto limit = number_in(kJoinLimit, "a number of seconds", "unset it to use the default of 600"))
    launch.join_limit_s = *limit;
  // Lists the most specific variable first: in a Slurm job, mpirun sets OMPI_COMM_WORLD_SIZE, and Slurm's variables
  // remain set.
  constexpr std::array kSizeVariables = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  for (const char* variable : kSizeVariables) {
    const auto num_ranks =
        number_in(variable, "a number of processes", "it is set by mpirun or srun: unset it to run one process");
    if (!num_ranks) continue;
    launch.variable = variable;
    launch.num_ranks = *num_ranks;
    return launch;
  }
  if (std::getenv("PMIX_RANK") != nullptr) {
    launch.variable = "PMIX_RANK";
    launch.num_ranks = 0;
  }
  return launch;
}

void require_no_other_launcher() {
  const char* size = std::getenv("WORLD_SIZE");
  if (size == nullptr || std::atoi(size) <= 1 || !find_launch().variable.empty()) return;
  base::fail_input("environment variable WORLD_SIZE", "1, or mpirun or srun", base::quoted(size) + " and neither",
                   "torchrun and accelerate start N runs of one process: use --ranks N");
}

std::unique_ptr<Collectives> make_world(int* argc, char*** argv) {
  const Launch launch = find_launch();
  if (std::unique_ptr<Collectives> job = join_local(launch)) return job;
  // A single process avoids MPI_Init, which takes half a second and starts a daemon.
  return launch.num_ranks == 1 ? make_solo() : join_launched(launch, argc, argv);
}

void set_abort(void (*abort)(int exit_code)) { g_abort = abort; }

void abort_job(int exit_code) {
  if (g_abort != nullptr) g_abort(exit_code);
  std::_Exit(exit_code);
}

void check_parts(const char* where, std::span<const Part> parts, std::size_t size, int num_ranks) {
  for (const Part& part : parts) {
    QRL_INVARIANT(
        part.begin <= size && part.count <= size - part.begin && part.owner >= 0 && part.owner < num_ranks, where,
        "parts of " + std::to_string(size) + " elements, owned by " + std::to_string(num_ranks) + " ranks",
        std::to_string(part.count) + " from " + std::to_string(part.begin) + " of rank " + std::to_string(part.owner));
  }
}

std::vector<int> share_out(std::span<const double> loads, int num_ranks) {
  std::vector<std::size_t> order(loads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return loads[a] > loads[b]; });
  std::vector<double> given(static_cast<std::size_t>(num_ranks), 0);
  std::vector<int> takers(loads.size());
  for (const std::size_t i : order) {
    const auto least = std::min_element(given.begin(), given.end());
    takers[i] = static_cast<int>(least - given.begin());
    *least += loads[i];
  }
  return takers;
}

}  // namespace qrl::dist
