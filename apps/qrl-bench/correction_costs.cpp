#include "correction_costs.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "learner/bench/policy_loss_speed.h"

namespace qrl::app {

void add_correction_costs(nlohmann::ordered_json& result, std::span<const types::MicroBatch> batches,
                          const types::GlobalCounts& counts, double step_s, dist::Collectives& world) {
  using config::CorrectionMethod;
  struct Way {
    std::string name;
    config::CorrectionRecipe correction;
    double best_s = std::numeric_limits<double>::infinity();
  };
  std::vector<Way> ways;
  const auto add = [&](const char* name, CorrectionMethod method) -> config::CorrectionRecipe& {
    config::CorrectionRecipe correction;
    correction.method = method;
    return ways.emplace_back(Way{name, correction}).correction;
  };
  add("none", CorrectionMethod::none);
  add("tis", CorrectionMethod::tis);
  add("acr", CorrectionMethod::tis).acr = true;
  add("icepop", CorrectionMethod::icepop);
  add("mis_prod", CorrectionMethod::mis_prod);
  add("mis_geo", CorrectionMethod::mis_geo);
  add("tbpo", CorrectionMethod::tbpo);
  add("ais", CorrectionMethod::ais);

  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    for (Way& way : ways) {
      const learner::LossOptions loss{learner::LossKind::policy, {}, way.correction};
      way.best_s = std::min(way.best_s, learner::measure_policy_loss(batches, counts, loss, world));
    }
  }
  const double none_s = ways.front().best_s;
  result["loss_s"] = none_s;
  for (std::size_t i = 1; i < ways.size(); ++i)
    // A difference of two timings: below 0 it is their noise alone.
    result["correction_" + ways[i].name + "_share"] = std::max(0.0, ways[i].best_s - none_s) / step_s;
}

}  // namespace qrl::app
