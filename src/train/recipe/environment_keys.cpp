#include "data/keys.h"
#include "rollout/keys.h"
#include "tasks/keys.h"
#include "train/recipe/sections.h"

namespace qrl::train {

void add_environment(config::Keys& keys) {
  config::Section environment(keys, "environment", &Recipe::environment);
  tasks::add_environment_keys(environment.of<tasks::EnvironmentOptions>());
  keys.at("environment.style")
      .needs("chat", "rollout.stop", "default",
             "a turn ends with the chat template's end token: set environment.style: continue, or delete rollout.stop")
      .needs("chat", "eval.stop", "default",
             "a turn ends with the chat template's end token: set environment.style: continue, or delete eval.stop")
      .needs("chat", "data.chat_template", "other than \"plain\"", "set environment.style: continue");
  environment.only_with("environment.command", "set");
  rollout::add_turn_key(environment.of<rollout::TurnOptions>().behind("environment.max_turns"));
  data::add_observation_keys(environment.of<data::ObservationLimit>().behind("environment.max_turn_tokens"));
  rollout::add_judge_key(environment.of<rollout::TurnOptions>().behind("environment.memory_mb"));
}

}  // namespace qrl::train
