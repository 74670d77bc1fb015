#include "correction_costs.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/reader.h"
#include "learner/bench/policy_loss_speed.h"
#include "learner/objective/mini_batch.h"
#include "train/plan/catalog.h"
#include "train/plan/learner_options.h"

namespace qrl::app {

void add_correction_costs(nlohmann::ordered_json& result, std::span<const types::MicroBatch> batches,
                          const types::GlobalCounts& counts, double step_s, dist::Collectives& world) {
  struct Way {
    std::string name;
    learner::LossOptions loss;
    double best_s = std::numeric_limits<double>::infinity();
  };
  std::vector<Way> ways;
  const auto add = [&](const std::string& name, const std::string& settings) {
    const config::Recipe recipe =
        config::parse_recipe(train::keys(), "rollout_correction: {" + settings + "}", "bench", {}, {}, false).recipe;
    ways.push_back({name, train::loss_options(recipe)});
  };
  for (const config::Option* one : train::keys().catalog().corrections.all()) {
    const std::string word(one->word);
    add(word, "method: " + word);
    if (word == "tis") add("acr", "method: tis, acr: true");
  }

  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    for (Way& way : ways) {
      way.best_s = std::min(way.best_s, learner::measure_policy_loss(batches, counts, way.loss, world));
    }
  }
  const double none_s = ways.front().best_s;
  result["loss_s"] = none_s;
  for (std::size_t i = 1; i < ways.size(); ++i)
    // Noise may make the difference negative.
    result["correction_" + ways[i].name + "_share"] = std::max(0.0, ways[i].best_s - none_s) / step_s;
}

}  // namespace qrl::app
