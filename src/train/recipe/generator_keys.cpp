#include <set>

#include "train/recipe/sections.h"

namespace qrl::train {

void add_generator(config::OnResume on_resume, config::Section<GeneratorRecipe> section,
                   const config::Choices<tasks::Generator>& generators, const std::string& unset_seed,
                   bool is_endless) {
  constexpr std::int64_t kMaxTasks = 10'000'000;
  using G = GeneratorRecipe;
  const std::string prefix = section.name() + ".", task = prefix + "task";
  if (!is_endless)
    section.add(on_resume, "size", &G::size, config::integer(0, kMaxTasks), "number of prompts").only_with(task, "set");
  config::Key& kind =
      section.add(on_resume, "task", &G::task, config::option_of(generators), "kind of task", "no generator");
  if (!is_endless) kind.needs("set", prefix + "size", "above 0", "set the number of tasks to make");
  section.add(on_resume, "seed", &G::seed, "seed of the tasks").unset_is(unset_seed).only_with(task, "set");
  std::set<std::string> added;
  for (const config::Option* one : generators.all()) {
    for (const config::Param& param : one->params) {
      if (!added.insert(param.name).second) continue;
      config::Key& key =
          section.keys().add(config::param_key(param, prefix + param.name, section.access().at(&G::own)));
      key.on_resume = on_resume;
      config::only_with_options(key, task, generators, param.name);
      if (!param.at_most.empty()) key.needs("", prefix + param.at_most, "at least " + key.name, "set both");
    }
  }
}

}  // namespace qrl::train
