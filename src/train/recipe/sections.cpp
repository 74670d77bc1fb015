#include "train/recipe/sections.h"

#include <algorithm>
#include <set>

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

std::int64_t tokens_per_micro_batch(const Recipe& recipe) {
  const config::AutoValue<std::int64_t>& size = recipe.actor.max_tokens_per_micro_batch;
  if (!size.is_auto || learns_on_gpu(recipe)) return size;
  const std::int64_t sequence = recipe.data.max_prompt_length + recipe.data.max_response_length;
  return std::max({ActorRecipe{}.max_tokens_per_micro_batch.value, sequence, recipe.sft.max_length.value_or(0)});
}

}  // namespace qrl::train
