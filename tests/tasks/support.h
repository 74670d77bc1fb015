// Owns the helpers of the tasks tests: a catalog of tasks only, and one verdict at a time.
#pragma once

#include <string_view>
#include <utility>

#include "config/keys/keys.h"
#include "support/catch.h"
#include "tasks/list.h"
#include "tasks/verifier.h"

namespace qrl::test {

/// Returns keys whose catalog has the program's tasks, but no losses, corrections and modes.
inline const config::Keys& task_keys() {
  static const config::Keys keys =
      config::declared_keys(config::Catalog{.generators = tasks::generators(), .verifiers = tasks::verifiers()});
  return keys;
}

/// Returns a recipe's defaults with that verifier.
inline config::Recipe recipe_with(const std::string& verifier) {
  config::Recipe recipe = task_keys().defaults();
  recipe.reward.verifier = verifier;
  return recipe;
}

/// Returns the verdict on one response, judged as a batch of one.
inline tasks::Verdict judged(const tasks::Verifier& verifier, std::string_view response,
                             std::string_view ground_truth) {
  const auto gold = verifier.prepare({ground_truth});
  const tasks::Sample sample{response, gold.get()};
  return std::move(verifier.judge(std::span(&sample, 1)).front());
}

}  // namespace qrl::test
