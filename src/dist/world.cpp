#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "dist/collectives.h"
#include "dist/join.h"

namespace qrl::dist {

Launch find_launch() {
  // Most specific first: mpirun inside a Slurm job sets the first and inherits the last.
  constexpr std::array kSizeVariables = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  for (const char* variable : kSizeVariables) {
    const char* value = std::getenv(variable);
    if (value == nullptr) continue;
    const std::string_view text = value;
    int num_ranks = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), num_ranks);
    QRL_REQUIRE(fault == std::errc() && end == text.data() + text.size() && num_ranks >= 1,
                std::string("environment variable ") + variable, "a number of processes", base::quoted(text),
                "it is set by mpirun or srun: unset it to run one process");
    return {variable, num_ranks};
  }
  if (std::getenv("PMIX_RANK") != nullptr) return {"PMIX_RANK", 0};
  return {};
}

std::unique_ptr<Collectives> make_world(int* argc, char*** argv) {
  const Launch launch = find_launch();
  // One process needs no MPI: MPI_Init would cost half a second and start a daemon.
  return launch.num_ranks == 1 ? make_solo() : join_job(launch, argc, argv);
}

}  // namespace qrl::dist
