#include "learner/objective/statistics.h"

#include <algorithm>

#include "base/rng.h"
#include "choices.h"
#include "learner/learner.h"
#include "learner/objective/mini_batch.h"
#include "support/catch.h"

using namespace qrl;

TEST_CASE("means over nothing: no metric value, but the name is in the run's rows") {
  learner::Statistics statistics;
  statistics.add_mean("none", 0, 0);
  statistics.add_mean("some", 0, 0);
  statistics.add_mean("some", 1, 2);
  const auto metrics = statistics.reduce(*dist::make_solo());
  CHECK_FALSE(metrics.contains("none"));
  CHECK(metrics.at("some") == 0.5);
  const auto names = learner::policy_metric_names(test::policy_options("name: grpo", "method: tis"));
  CHECK(std::ranges::find(names, "actor/negative_rare_fraction") != names.end());
}

TEST_CASE("percentiles of rho: equal those of sorted values, within half a percent of log rho") {
  const auto world = dist::make_solo();
  for (const double scale : {0.0, 1e-7, 1e-3, 1.0, 30.0}) {
    base::RandomStream random(1, base::RandomPurpose::test, 0);
    std::vector<double> old(5000), sampler(5000), zeros(5000), log_rho;
    learner::Statistics statistics;
    for (std::size_t i = 0; i < old.size(); ++i) {
      old[i] = -1;
      sampler[i] = old[i] - scale * (random.uniform() - 0.6);
      log_rho.push_back(std::clamp(old[i] - sampler[i], -20.0, 20.0));
    }
    // In three parts: counts do not depend on how tokens are divided.
    for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, 7}, {7, 2500}, {2500, 5000}}) {
      const auto part = [&, b = begin, n = end - begin](const std::vector<double>& v) {
        return std::span(v).subspan(b, n);
      };
      statistics.add_policy_tokens({part(old), part(old), part(sampler), part(zeros), part(zeros)});
    }
    const auto metrics = statistics.reduce(*world);
    std::sort(log_rho.begin(), log_rho.end());
    for (const auto& [name, rank] :
         {std::pair<std::string, std::size_t>{"p01", 50}, {"p05", 250}, {"p50", 2500}, {"p95", 4750}, {"p99", 4950}}) {
      const double want = log_rho[rank - 1];
      INFO(scale << " " << name << " " << want);
      CHECK(test::close(std::log(metrics.at("mismatch/rho_" + name)), want, 2e-9, 5.1e-3));
    }
    CHECK(metrics.at("mismatch/rho_min") <= metrics.at("mismatch/rho_p01"));
    CHECK(metrics.at("mismatch/rho_p99") <= metrics.at("mismatch/rho_max"));
  }
}
