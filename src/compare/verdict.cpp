#include "compare/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "compare/statistics.h"
#include "report/page.h"
#include "report/page_data.h"

namespace qrl::compare {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kConfidence = 0.95, kPower = 0.8;

bool is_ratio(const Verdict& verdict) { return verdict.contrast->kind == Kind::ratio; }

/// Fills seeds and differences; if a run lacks a value, fills the reason instead. Throws an input error for a missing
/// run.
void pair(const Plan& plan, const ArmRuns& runs, Verdict& verdict) {
  const Contrast& contrast = *verdict.contrast;
  const Endpoint& endpoint = plan.endpoint(contrast.endpoint);
  verdict.seeds = plan.pairs(contrast);
  for (const std::int64_t seed : verdict.seeds) {
    std::array<double, 2> sides{};
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const std::string& arm = i == 0 ? contrast.first : contrast.second;
      const std::string where = "arm " + arm + ", seed " + std::to_string(seed);
      const auto run = runs.find({arm, seed});
      QRL_REQUIRE(run != runs.end(), where, "rows", "none", "finish the comparison: qrl-train compare PLAN");
      sides[i] = endpoint_of(endpoint, run->second);
      if (std::isfinite(sides[i]) && (!is_ratio(verdict) || sides[i] > 0)) continue;
      verdict.reason =
          where + ": no " + endpoint.metric + (is_ratio(verdict) ? " above 0" : "") + " at the endpoint's steps";
      return;
    }
    verdict.differences.push_back(is_ratio(verdict) ? std::log(sides[0]) - std::log(sides[1]) : sides[0] - sides[1]);
  }
}

/// Returns the differences with signs for which higher values are better.
std::vector<double> improvements(const Plan& plan, const Verdict& verdict) {
  std::vector<double> turned = verdict.differences;
  if (!plan.endpoint(verdict.contrast->endpoint).higher_is_better)
    for (double& value : turned) value = -value;
  return turned;
}

/// Fills mean, and with kLeastPairs pairs or more interval and p.
void test(const Plan& plan, Verdict& verdict) {
  verdict.mean = verdict.low = verdict.high = verdict.p = verdict.adjusted = verdict.decides = report::kNan;
  if (!verdict.reason.empty()) return;
  verdict.mean = mean_of(verdict.differences);
  if (verdict.differences.size() >= kLeastPairs) {
    const SignFlips flips(verdict.differences);
    const Interval interval =
        is_ratio(verdict) ? t_interval(verdict.differences, kConfidence) : flips.interval(kConfidence);
    verdict.low = interval.low;
    verdict.high = interval.high;
    const double margin = verdict.contrast->margin;
    switch (verdict.contrast->kind) {
      case Kind::difference:
        verdict.p = flips.p_two_sided();
        break;
      case Kind::equality:
        verdict.p = flips.p_within(margin);
        break;
      case Kind::not_worse:
        verdict.p = SignFlips(improvements(plan, verdict)).p_above(-margin);
        break;
      case Kind::ratio:
        verdict.p = t_test(verdict.differences);
        break;
    }
  }
  if (is_ratio(verdict))
    for (double* value : {&verdict.mean, &verdict.low, &verdict.high}) *value = std::exp(*value);
}

/// Returns what the number of seeds decides at the strictest level of a Holm family of `num_tests`.
double decided(const Verdict& verdict, double alpha, std::size_t num_tests) {
  const std::size_t count = verdict.differences.size();
  const double strict = alpha / static_cast<double>(num_tests), deviation = deviation_of(verdict.differences);
  switch (verdict.contrast->kind) {
    case Kind::difference:
      return deviation * detectable_effect(count, 0.5 * attained_level(count, strict), kPower);
    case Kind::ratio:
      return std::exp(deviation * detectable_effect(count, 0.5 * strict, kPower));
    case Kind::not_worse:
      return deviation * detectable_effect(count, 0.5 * attained_level(count, 2 * strict), kPower);
    case Kind::equality:
      break;
  }
  return deviation * detectable_effect(count, 0.5 * attained_level(count, 2 * strict), 0.5 * (1 + kPower));  // twice
}

std::string number(double value) { return std::isfinite(value) ? base::format("%.4g", value) : "-"; }

std::string p_text(double p) { return std::isnan(p) ? "-" : p < 1e-4 ? "< 0.0001" : base::format("%.4f", p); }

std::string what_of(const Contrast& contrast) {
  return std::string(name_of(contrast.kind)) + (contrast.margin > 0 ? " " + number(contrast.margin) : "");
}

/// Fills word, and the reason where nothing is decided.
void decide(const Plan& plan, Verdict& verdict) {
  const Kind kind = verdict.contrast->kind;
  const std::string count = std::to_string(verdict.seeds.size()) + (verdict.seeds.size() == 1 ? " seed" : " seeds");
  const bool spreads =
      std::ranges::any_of(verdict.differences, [&](double one) { return one != verdict.differences[0]; });
  if (!verdict.reason.empty()) {
    verdict.word = "no value";
  } else if (std::isnan(verdict.p)) {
    verdict.word = "descriptive";
    verdict.reason = count + ": a p-value needs " + std::to_string(kLeastPairs);
  } else if (verdict.adjusted <= plan.alpha) {
    verdict.word = kind == Kind::equality                     ? "equal within the margin"
                   : kind == Kind::not_worse                  ? "not worse by the margin"
                   : mean_of(improvements(plan, verdict)) > 0 ? "better"
                                                              : "worse";
  } else {
    verdict.word = "undecided";
    const char* what = kind == Kind::ratio        ? "a ratio of "
                       : kind == Kind::difference ? "an effect of "
                                                  : "a margin of ";
    if (!spreads) verdict.reason = "all " + count + " have the same difference";
    else if (!std::isfinite(verdict.decides))
      verdict.reason = count + " cannot reach the level that Holm's correction needs here";
    else verdict.reason = count + " decide " + what + number(verdict.decides) + " with power 0.8";
  }
}

Json json_of(const Verdict& verdict) {
  const Contrast& contrast = *verdict.contrast;
  return {{"first", contrast.first},
          {"second", contrast.second},
          {"endpoint", contrast.endpoint},
          {"kind", name_of(contrast.kind)},
          {"margin", contrast.margin},
          {"family", contrast.family},
          {"seeds", verdict.seeds},
          {is_ratio(verdict) ? "log_ratios" : "differences", verdict.differences},
          {is_ratio(verdict) ? "ratio" : "mean", report::finite_or_null(verdict.mean)},
          {"interval_95", {report::finite_or_null(verdict.low), report::finite_or_null(verdict.high)}},
          {"p", report::finite_or_null(verdict.p)},
          {"p_holm", report::finite_or_null(verdict.adjusted)},
          {"decides", report::finite_or_null(verdict.decides)},
          {"verdict", verdict.word},
          {"reason", verdict.reason}};
}

Json verdict_json(const Plan& plan, const ArmRuns& runs, const std::vector<Verdict>& verdicts) {
  Json json = {{"plan", plan.hash()}, {"program", runs.begin()->second.program}, {"alpha", plan.alpha}};
  for (const Verdict& verdict : verdicts) json["contrasts"].push_back(json_of(verdict));
  for (const auto& [key, run] : runs) {
    Json values = Json::object();
    for (const Endpoint& endpoint : plan.endpoints)
      values[endpoint.name] = report::finite_or_null(endpoint_of(endpoint, run));
    json["runs"].push_back({{"arm", key.first},
                            {"seed", key.second},
                            {"isa", run.isa},
                            {"first_step_with_signal", first_step_with_signal(run)},
                            {"endpoints", std::move(values)}});
  }
  return json;
}

/// Returns a line of the table with one value for each endpoint.
std::string endpoint_line(const Plan& plan, const std::string& begin, const std::vector<std::string>& values) {
  std::string text = begin;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += base::format("  %*s", static_cast<int>(std::max<std::size_t>(plan.endpoints[i].name.size(), 9)),
                         values[i].c_str());
  return text + "\n";
}

std::string means_line(const Plan& plan, const ArmRuns& runs, const Arm& arm) {
  std::vector<std::string> means;
  for (const Endpoint& endpoint : plan.endpoints) {
    std::vector<double> values;
    for (const std::int64_t seed : arm.seeds) values.push_back(endpoint_of(endpoint, runs.at({arm.name, seed})));
    means.push_back(number(mean_of(values)));
  }
  return endpoint_line(plan, base::format("%-24s %5zu  %-8s %12s", arm.name.c_str(), arm.seeds.size(), "mean", ""),
                       means);
}

}  // namespace

std::vector<Verdict> judge(const Plan& plan, const ArmRuns& runs) {
  require_comparable(plan, runs);
  std::vector<Verdict> verdicts;
  std::map<std::string, std::vector<std::size_t>> families;
  for (const Contrast& contrast : plan.contrasts) {
    Verdict& verdict = verdicts.emplace_back();
    verdict.contrast = &contrast;
    pair(plan, runs, verdict);
    test(plan, verdict);
    if (!std::isnan(verdict.p)) families[contrast.family].push_back(verdicts.size() - 1);
  }
  for (const auto& [family, places] : families) {
    std::vector<double> p;
    for (const std::size_t place : places) p.push_back(verdicts[place].p);
    const std::vector<double> adjusted = holm(p);
    for (std::size_t i = 0; i < places.size(); ++i) {
      verdicts[places[i]].adjusted = adjusted[i];
      verdicts[places[i]].decides = decided(verdicts[places[i]], plan.alpha, places.size());
    }
  }
  for (Verdict& verdict : verdicts) decide(plan, verdict);
  return verdicts;
}

std::string verdicts_text(const Plan& plan, const ArmRuns& runs, const std::vector<Verdict>& verdicts) {
  std::string text = "\n", reasons;
  for (const Arm& arm : plan.arms) text += means_line(plan, runs, arm);
  std::size_t width = 8;
  const auto name = [](const Verdict& verdict) { return verdict.contrast->name() + " " + verdict.contrast->endpoint; };
  for (const Verdict& verdict : verdicts) width = std::max(width, name(verdict).size());
  const int room = static_cast<int>(std::min<std::size_t>(width, 60));
  const char* pattern = "%-*s  %-16s %5s %9s  %-20s %-8s %-8s %s\n";
  const auto line = [&](const std::array<std::string, 8>& cells) {
    text += base::format(pattern, room, cells[0].c_str(), cells[1].c_str(), cells[2].c_str(), cells[3].c_str(),
                         cells[4].c_str(), cells[5].c_str(), cells[6].c_str(), cells[7].c_str());
  };
  text += "\n";
  line({"contrast", "kind", "seeds", "mean", "95 % interval", "p", "Holm", "verdict"});
  for (const Verdict& verdict : verdicts) {
    const std::string interval = std::isnan(verdict.low) ? "-" : number(verdict.low) + " to " + number(verdict.high);
    line({name(verdict), what_of(*verdict.contrast), std::to_string(verdict.seeds.size()), number(verdict.mean),
          interval, p_text(verdict.p), p_text(verdict.adjusted), verdict.word});
    if (!verdict.reason.empty())
      reasons += name(verdict) + ", " + what_of(*verdict.contrast) + ": " + verdict.reason + "\n";
  }
  return text + reasons + "plan " + plan.hash() + "\n";
}

std::string runs_title(const Plan& plan) {
  std::vector<std::string> names;
  for (const Endpoint& endpoint : plan.endpoints) names.push_back(endpoint.name);
  return endpoint_line(plan, base::format("%-24s %5s  %-8s %12s", "arm", "seed", "isa", "first signal"), names);
}

std::string run_line(const Plan& plan, const std::string& arm, std::int64_t seed, const ArmRun& run) {
  const std::int64_t signal = first_step_with_signal(run);
  std::vector<std::string> values;
  for (const Endpoint& endpoint : plan.endpoints) values.push_back(number(endpoint_of(endpoint, run)));
  return endpoint_line(plan,
                       base::format("%-24s %5lld  %-8s %12s", arm.c_str(), static_cast<long long>(seed),
                                    run.isa.c_str(), signal == 0 ? "never" : std::to_string(signal).c_str()),
                       values);
}

std::string verdicts_json(const Plan& plan, const ArmRuns& runs, const std::vector<Verdict>& verdicts) {
  return verdict_json(plan, runs, verdicts).dump(1) + "\n";
}

std::string verdicts_page(const Plan& plan, const ArmRuns& runs, const std::vector<Verdict>& verdicts) {
  Json pairs = verdict_json(plan, runs, verdicts);
  for (const Arm& arm : plan.arms) pairs["arms"].push_back({{"name", arm.name}, {"set", arm.set}});
  for (const Endpoint& endpoint : plan.endpoints) {
    Json curves = Json::array();
    for (const auto& [key, run] : runs) {
      Json points = Json::array();
      for (const report::Row& row : run.rows)
        if (const double value = report::value_of(row.metrics, endpoint.metric); std::isfinite(value))
          points.push_back({row.step, value});
      curves.push_back({{"arm", key.first}, {"points", std::move(points)}});
    }
    pairs["endpoints"].push_back({{"name", endpoint.name},
                                  {"metric", endpoint.metric},
                                  {"steps", endpoint.steps},
                                  {"curves", std::move(curves)}});
  }
  const Json data = {{"live", false}, {"panels", Json::array()}, {"runs", Json::array()}, {"pairs", std::move(pairs)}};
  return report::make_page(report::script_json(data), false);
}

}  // namespace qrl::compare
