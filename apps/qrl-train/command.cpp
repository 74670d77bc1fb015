#include "command.h"

#include "base/error.h"
#include "learner/learner.h"
#include "ops/isa.h"

namespace qrl::app {

void add_recipe_arguments(CLI::App& command, RecipeArguments& arguments, bool required) {
  CLI::Option* file =
      command.add_option("RECIPE", arguments.file, "recipe file (YAML); its keys are listed by qrl-train --help");
  if (required) file->required();
  command.add_option("--set", arguments.overrides, "override a key of the recipe, KEY=VALUE; may be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
}

void require_one_process(const dist::Collectives& world, const std::string& command) {
  QRL_REQUIRE(world.size() == 1, "qrl-train " + command, "one process", std::to_string(world.size()),
              "run it without mpirun");
}

std::string version_text() {
  return "qrl-train " QRL_VERSION "\n  isa: " + ops::describe_isa() + "\n  torch: " + learner::torch_version() +
         "\n  mpi: " + dist::mpi_version() + "\n  cuda: off";
}

}  // namespace qrl::app
