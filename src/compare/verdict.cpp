#include "compare/verdict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "report/page.h"
#include "report/page_data.h"

namespace qrl::compare {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kConfidence = 0.95, kPower = 0.8;

/// Returns the differences of a contrast's pairs. Throws an input error for a missing run or value.
std::vector<double> differences_of(const Plan& plan, const ArmRuns& runs, const Contrast& contrast) {
  const Endpoint& endpoint = plan.endpoint(contrast.endpoint);
  std::vector<double> differences;
  for (const std::int64_t seed : plan.pairs(contrast)) {
    double side[2];
    for (int i = 0; i < 2; ++i) {
      const std::string& arm = i == 0 ? contrast.first : contrast.second;
      const std::string where = "arm " + arm + ", seed " + std::to_string(seed);
      const auto run = runs.find({arm, seed});
      QRL_REQUIRE(run != runs.end(), where, "rows", "none", "finish the comparison: qrl-train compare PLAN");
      side[i] = endpoint_of(endpoint, run->second);
      QRL_REQUIRE(std::isfinite(side[i]), where, endpoint.metric + " at the steps of endpoint " + endpoint.name,
                  "no value");
      QRL_REQUIRE(contrast.kind != Kind::ratio || side[i] > 0, where, endpoint.metric + " above 0 for a ratio",
                  base::format("%g", side[i]));
    }
    differences.push_back(contrast.kind == Kind::ratio ? std::log(side[0]) - std::log(side[1]) : side[0] - side[1]);
  }
  return differences;
}

/// Turns differences so that higher values are better.
std::vector<double> improvements(const Plan& plan, const Verdict& verdict) {
  std::vector<double> turned = verdict.differences;
  if (!plan.endpoint(verdict.contrast->endpoint).higher_is_better)
    for (double& value : turned) value = -value;
  return turned;
}

/// Fills mean, interval and p. With fewer than kLeastPairs pairs, fills the mean alone.
void test(const Plan& plan, Verdict& verdict) {
  verdict.mean = mean_of(verdict.differences);
  verdict.low = verdict.high = verdict.p = report::kNan;
  if (verdict.differences.size() >= kLeastPairs) {
    const Kind kind = verdict.contrast->kind;
    const SignFlips flips(verdict.differences);
    const Interval interval =
        kind == Kind::ratio ? t_interval(verdict.differences, kConfidence) : flips.interval(kConfidence);
    verdict.low = interval.low;
    verdict.high = interval.high;
    verdict.p = kind == Kind::ratio       ? t_test(verdict.differences)
                : kind == Kind::equality  ? flips.p_within(verdict.contrast->margin)
                : kind == Kind::not_worse ? SignFlips(improvements(plan, verdict)).p_above(-verdict.contrast->margin)
                                          : flips.p_two_sided();
  }
  if (verdict.contrast->kind != Kind::ratio) return;
  for (double* value : {&verdict.mean, &verdict.low, &verdict.high}) *value = std::exp(*value);
}

/// Returns what a contrast's number of seeds decides, at the strictest level of a Holm family of `num_tests`.
double decided(const Verdict& verdict, double alpha, std::size_t num_tests) {
  const std::size_t count = verdict.differences.size();
  const double strict = alpha / static_cast<double>(num_tests), deviation = deviation_of(verdict.differences);
  const double power =
      verdict.contrast->kind == Kind::equality ? 0.5 * (1 + kPower) : kPower;  // both sides must reject
  switch (verdict.contrast->kind) {
    case Kind::difference:
      return deviation * detectable_effect(count, 0.5 * attained_level(count, strict), power);
    case Kind::ratio:
      return std::exp(deviation * detectable_effect(count, 0.5 * strict, power));
    default:
      return deviation * detectable_effect(count, 0.5 * attained_level(count, 2 * strict), power);
  }
}

std::string word_of(const Plan& plan, const Verdict& verdict) {
  if (std::isnan(verdict.p)) return "descriptive";
  if (verdict.adjusted > plan.alpha) return "undecided";
  if (verdict.contrast->kind == Kind::equality) return "equal within the margin";
  if (verdict.contrast->kind == Kind::not_worse) return "not worse by the margin";
  return mean_of(improvements(plan, verdict)) > 0 ? "better" : "worse";
}

std::string number(double value) { return std::isfinite(value) ? base::format("%.4g", value) : "–"; }

std::string p_text(double p) { return std::isnan(p) ? "–" : p < 1e-4 ? "< 0.0001" : base::format("%.4f", p); }

std::string what_of(const Verdict& verdict) {
  const Contrast& contrast = *verdict.contrast;
  const bool has_margin = contrast.margin > 0;
  return std::string(name_of(contrast.kind)) + (has_margin ? " " + number(contrast.margin) : "");
}

/// Returns the sentence that an undecided or descriptive verdict has.
std::string doubt_of(const Verdict& verdict) {
  const std::string count = std::to_string(verdict.seeds.size()) + (verdict.seeds.size() == 1 ? " seed" : " seeds");
  if (verdict.word == "descriptive") return count + ": a p-value needs " + std::to_string(kLeastPairs);
  if (verdict.word != "undecided") return "";
  if (verdict.decides == 0) return "the arms do not differ in any seed";
  if (!std::isfinite(verdict.decides)) return count + " cannot reach the level that Holm's correction needs here";
  const Kind kind = verdict.contrast->kind;
  return count + " decide " +
         (kind == Kind::ratio        ? "a ratio of "
          : kind == Kind::difference ? "an effect of "
                                     : "a margin of ") +
         number(verdict.decides) + " with power 0.8";
}

Json json_of(const Verdict& verdict) {
  const Contrast& contrast = *verdict.contrast;
  Json json = {{"first", contrast.first},
               {"second", contrast.second},
               {"endpoint", contrast.endpoint},
               {"kind", name_of(contrast.kind)},
               {"family", contrast.family}};
  if (contrast.margin > 0) json["margin"] = contrast.margin;
  json["seeds"] = verdict.seeds;
  json[contrast.kind == Kind::ratio ? "log_ratios" : "differences"] = verdict.differences;
  json[contrast.kind == Kind::ratio ? "ratio" : "mean"] = verdict.mean;
  json["interval_95"] = {report::finite_or_null(verdict.low), report::finite_or_null(verdict.high)};
  json["p"] = report::finite_or_null(verdict.p);
  json["p_holm"] = report::finite_or_null(verdict.adjusted);
  json["decides"] = report::finite_or_null(verdict.decides);
  json["verdict"] = verdict.word;
  return json;
}

}  // namespace

std::vector<Verdict> judge(const Plan& plan, const ArmRuns& runs) {
  require_comparable(plan, runs);
  std::vector<Verdict> verdicts;
  std::map<std::string, std::vector<std::size_t>> families;
  for (const Contrast& contrast : plan.contrasts) {
    Verdict& verdict = verdicts.emplace_back(Verdict{.contrast = &contrast, .seeds = plan.pairs(contrast)});
    verdict.differences = differences_of(plan, runs, contrast);
    test(plan, verdict);
    if (!std::isnan(verdict.p)) families[contrast.family].push_back(verdicts.size() - 1);
  }
  for (Verdict& verdict : verdicts) verdict.adjusted = verdict.decides = report::kNan;
  for (const auto& [family, places] : families) {
    std::vector<double> p;
    for (const std::size_t place : places) p.push_back(verdicts[place].p);
    const std::vector<double> adjusted = holm(p);
    for (std::size_t i = 0; i < places.size(); ++i) {
      verdicts[places[i]].adjusted = adjusted[i];
      verdicts[places[i]].decides = decided(verdicts[places[i]], plan.alpha, places.size());
    }
  }
  for (Verdict& verdict : verdicts) verdict.word = word_of(plan, verdict);
  return verdicts;
}

std::string verdicts_text(const Plan& plan, const std::vector<Verdict>& verdicts) {
  std::size_t width = 8;
  for (const Verdict& verdict : verdicts)
    width = std::max(width, (verdict.contrast->name() + " " + verdict.contrast->endpoint).size());
  const int room = static_cast<int>(std::min<std::size_t>(width, 60));
  std::string text = base::format("%-*s  %-16s %5s %9s  %-20s %-8s %-8s verdict\n", room, "contrast", "kind", "seeds",
                                  "mean", "95 % interval", "p", "Holm");
  for (const Verdict& verdict : verdicts) {
    const std::string interval = std::isnan(verdict.low) ? "-" : number(verdict.low) + " to " + number(verdict.high);
    text += base::format("%-*s  %-16s %5zu %9s  %-20s %-8s %-8s %s\n", room,
                         (verdict.contrast->name() + " " + verdict.contrast->endpoint).c_str(),
                         what_of(verdict).c_str(), verdict.seeds.size(), number(verdict.mean).c_str(), interval.c_str(),
                         std::isnan(verdict.p) ? "-" : p_text(verdict.p).c_str(),
                         std::isnan(verdict.p) ? "-" : p_text(verdict.adjusted).c_str(), verdict.word.c_str());
  }
  for (const Verdict& verdict : verdicts)
    if (const std::string doubt = doubt_of(verdict); !doubt.empty())
      text +=
          verdict.contrast->name() + " " + verdict.contrast->endpoint + ", " + what_of(verdict) + ": " + doubt + "\n";
  return text + "plan " + plan.hash() + "\n";
}

std::string runs_title(const Plan& plan) {
  std::string text = base::format("%-24s %5s  %-8s %11s", "arm", "seed", "isa", "first signal");
  for (const Endpoint& endpoint : plan.endpoints) text += "  " + endpoint.name;
  return text + "\n";
}

std::string run_line(const Plan& plan, const std::string& arm, std::int64_t seed, const ArmRun& run) {
  std::string text = base::format("%-24s %5lld  %-8s %11lld ", arm.c_str(), static_cast<long long>(seed),
                                  run.isa.c_str(), static_cast<long long>(first_step_with_signal(run)));
  for (const Endpoint& endpoint : plan.endpoints)
    text += base::format("  %-*s", static_cast<int>(endpoint.name.size()), number(endpoint_of(endpoint, run)).c_str());
  return text + "\n";
}

std::string verdicts_json(const Plan& plan, const ArmRuns& runs, const std::vector<Verdict>& verdicts) {
  Json json = {{"plan", plan.hash()}, {"program", runs.begin()->second.program}, {"alpha", plan.alpha}};
  for (const Verdict& verdict : verdicts) json["contrasts"].push_back(json_of(verdict));
  for (const auto& [key, run] : runs) {
    Json one = {{"arm", key.first},
                {"seed", key.second},
                {"isa", run.isa},
                {"first_step_with_signal", first_step_with_signal(run)}};
    for (const Endpoint& endpoint : plan.endpoints)
      one[endpoint.name] = report::finite_or_null(endpoint_of(endpoint, run));
    json["runs"].push_back(std::move(one));
  }
  return json.dump(1) + "\n";
}

std::string verdicts_page(const Plan& plan, const ArmRuns& runs, const std::vector<Verdict>& verdicts) {
  Json pairs = {{"plan", plan.hash()},
                {"program", runs.begin()->second.program},
                {"arms", Json::array()},
                {"endpoints", Json::array()},
                {"contrasts", Json::array()}};
  for (const Arm& arm : plan.arms) pairs["arms"].push_back({{"name", arm.name}, {"set", arm.set}});
  for (const Endpoint& endpoint : plan.endpoints) {
    Json curves = Json::array();
    for (const auto& [key, run] : runs) {
      Json points = Json::array();
      for (const report::Row& row : run.rows)
        if (const double value = report::value_of(row.metrics, endpoint.metric); std::isfinite(value))
          points.push_back({row.step, value});
      curves.push_back({{"arm", key.first}, {"seed", key.second}, {"points", std::move(points)}});
    }
    pairs["endpoints"].push_back({{"name", endpoint.name},
                                  {"metric", endpoint.metric},
                                  {"steps", endpoint.steps},
                                  {"curves", std::move(curves)}});
  }
  for (const Verdict& verdict : verdicts) {
    Json json = json_of(verdict);
    json["what"] = what_of(verdict);
    json["doubt"] = doubt_of(verdict);
    pairs["contrasts"].push_back(std::move(json));
  }
  return report::make_page(
      report::script_json(
          {{"live", false}, {"panels", Json::array()}, {"runs", Json::array()}, {"pairs", std::move(pairs)}}),
      false);
}

}  // namespace qrl::compare
