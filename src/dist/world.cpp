#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "dist/collectives.h"
#include "dist/join.h"
#include "dist/messages.h"

namespace qrl::dist {

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
  if (const auto limit = number_in(kJoinLimit, "a number of seconds", "unset it: 600")) launch.join_limit_s = *limit;
  // Lists the most specific first: mpirun in a Slurm job sets OMPI_COMM_WORLD_SIZE, and Slurm's variables remain.
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

std::unique_ptr<Collectives> make_world(int* argc, char*** argv) {
  const Launch launch = find_launch();
  if (std::unique_ptr<Collectives> job = join_local(launch)) return job;
  // Avoids MPI_Init, which takes half a second and starts a daemon.
  return launch.num_ranks == 1 ? make_solo() : join_launched(launch, argc, argv);
}

void set_abort(void (*abort)(int exit_code)) { g_abort = abort; }

void abort_job(int exit_code) {
  if (g_abort != nullptr) g_abort(exit_code);
  std::_Exit(exit_code);
}

}  // namespace qrl::dist
