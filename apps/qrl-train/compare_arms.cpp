#include "compare_arms.h"

#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "compare/metric_page.h"
#include "config/printer.h"
#include "ops/isa.h"
#include "report/recipe_lines.h"
#include "train/evaluate/evaluate.h"
#include "train/plan/catalog.h"
#include "train/run_plan.h"

namespace qrl::app {

namespace {

using compare::Arm;
using compare::Endpoint;
using compare::Plan;

/// Arms must not differ in these keys (full keys, or sections that end with a point), which define the scores.
constexpr std::array kScoring = {"eval.", "reward.", "data.val_files", "data.val_generator."};
/// Keys without an effect on results, which base_keys leaves out.
constexpr std::array kElsewhere = {"model.path", "trainer.default_local_dir", "trainer.seed", "trainer.threads",
                                   "trainer.resume_mode"};
/// Draws of other samples use trainer.seed + kOtherSamples * Arm::samples.
constexpr std::int64_t kOtherSamples = 1'000'000;

std::string place_of(const Arm& arm) { return "arm " + arm.name; }

/// Removes the folders of absolute paths in a printed value, which differ between checkouts.
std::string without_folders(const std::string& value) {
  static const std::regex path("\"/[^\"]*/([^\"/]*)\"");
  return std::regex_replace(value, path, "\"$1\"");
}

config::LoadedRecipe load(const Plan& plan, const Arm& arm) {
  return config::load_recipe(train::keys(), plan.base, settings_of(plan, arm, 0), true, config::RecipeUse::training);
}

std::map<std::string, std::string> values_of(const config::LoadedRecipe& loaded) {
  std::map<std::string, std::string> values;
  for (const report::RecipeLine& line : report::read_recipe_lines(loaded.annotated_yaml)) values[line.key] = line.value;
  return values;
}

void check_difference(const Arm& a, const Arm& b, const std::map<std::string, std::string>& of_a,
                      const std::map<std::string, std::string>& of_b) {
  bool differ = a.samples != b.samples;
  for (const auto& [key, value] : of_a) {
    if (key.ends_with(".seed") || value == of_b.at(key)) continue;
    differ = true;
    const bool scores = std::ranges::any_of(kScoring, [&](const std::string& each) {
      return key == each || (each.ends_with('.') && key.starts_with(each));
    });
    QRL_REQUIRE(!scores, place_of(b), "the scoring of arm " + a.name + ", " + key + " " + of_a.at(key), of_b.at(key),
                "arms are compared by one score");
    QRL_REQUIRE(key != "trainer.total_training_steps", place_of(b), "the " + value + " steps of arm " + a.name,
                of_b.at(key) + " steps");
  }
  QRL_REQUIRE(differ, place_of(b), "a recipe that differs from arm " + a.name, "the same recipe");
}

bool fits(std::string_view pattern, std::string_view part) {
  if (pattern == "SOURCE" || pattern == "NAME") return !part.empty();
  if (!pattern.ends_with('N') && !pattern.ends_with('K')) return pattern == part;
  const std::string_view stem = pattern.substr(0, pattern.size() - 1);
  return part.starts_with(stem) && base::number_in<std::int64_t>(part.substr(stem.size())).has_value();
}

bool fits_all(std::string_view pattern, std::string_view metric) {
  const std::size_t a = pattern.find('/'), b = metric.find('/');
  if (!fits(pattern.substr(0, a), metric.substr(0, b)) ||
      (a == std::string_view::npos) != (b == std::string_view::npos))
    return false;
  return a == std::string_view::npos || fits_all(pattern.substr(a + 1), metric.substr(b + 1));
}

/// Returns the metrics that docs/reference/metrics.md lists, with {x,y} written out.
const std::set<std::string>& listed_metrics() {
  static const std::set<std::string> names = [] {
    std::set<std::string> found;
    const std::string_view page = compare::metric_page().front().text;
    constexpr std::string_view kRow = "\n| `";
    for (std::size_t at = page.find(kRow); at != std::string_view::npos; at = page.find(kRow, at + 1)) {
      const std::string_view name = page.substr(at + kRow.size(), page.find('`', at + kRow.size()) - at - kRow.size());
      const std::size_t open = name.find('{'), close = name.find('}');
      if (open == std::string_view::npos) found.emplace(name);
      for (std::size_t word = open; word < close && open != std::string_view::npos;) {
        const std::size_t end = std::min(name.find(',', word + 1), close);
        found.insert(std::string(name.substr(0, open)) + std::string(name.substr(word + 1, end - word - 1)) +
                     std::string(name.substr(close + 1)));
        word = end;
      }
    }
    return found;
  }();
  return names;
}

void check_steps(const Endpoint& endpoint, const std::string& place, const config::Recipe& recipe, bool is_evaluated) {
  const std::int64_t last = recipe.trainer.total_training_steps, freq = recipe.eval.freq;
  for (const std::int64_t step : endpoint.steps) {
    QRL_REQUIRE(step <= last, place, "steps of at most trainer.total_training_steps " + std::to_string(last),
                std::to_string(step));
    QRL_REQUIRE(!is_evaluated || endpoint.is_range || step == last || step % freq == 0, place,
                "steps that are evaluated: eval.freq is " + std::to_string(freq), std::to_string(step));
  }
}

/// `held_out`: the scores' names (val/SOURCE/mean@N).
void check_endpoint(const Endpoint& endpoint, const config::Recipe& recipe, const std::vector<std::string>& held_out) {
  const std::string place = "endpoint " + endpoint.name;
  const bool is_export = endpoint.metric.starts_with("export/"), is_held_out = endpoint.metric.starts_with("val/");
  check_steps(endpoint, place, recipe, is_held_out);
  if (!is_export && !is_held_out) {
    QRL_REQUIRE(is_listed_metric(endpoint.metric), place, "a metric of docs/reference/metrics.md",
                base::quoted(endpoint.metric));
    return;
  }
  std::vector<std::string> known;
  for (const std::string& name : held_out) {
    const std::string source = name.substr(4, name.rfind('/') - 4);
    known.push_back(is_export ? "export/" + source : name);
    if (is_held_out && endpoint.metric.starts_with("val/" + source + "/") &&
        endpoint.metric.find("/mean@") == std::string::npos && is_listed_metric(endpoint.metric))
      return;
  }
  QRL_REQUIRE(std::ranges::count(known, endpoint.metric) == 1, place,
              known.empty() ? "held-out prompts and eval.freq above 0" : base::joined(known, ", "),
              base::quoted(endpoint.metric));
  QRL_REQUIRE(!is_export || !config::trains_adapters(recipe), place, "a metric of runs with adapters",
              base::quoted(endpoint.metric), "the held-out score is already that of the exported adapters");
  QRL_REQUIRE(!is_export || endpoint.steps.empty() || endpoint.steps.back() == recipe.trainer.total_training_steps,
              place, "no steps: exported weights are scored after the last step",
              std::to_string(endpoint.steps.front()));
}

}  // namespace

std::vector<std::string> settings_of(const Plan& plan, const Arm& arm, std::int64_t seed) {
  std::vector<std::string> settings = arm.set;
  const auto add = [&](const std::string& key, std::int64_t value) {
    settings.push_back(key + "=" + std::to_string(value));
  };
  if (arm.samples != 0) {  // keeps what follows trainer.seed otherwise
    const config::Recipe recipe =
        config::load_recipe(train::keys(), plan.base, settings, true, config::RecipeUse::training).recipe;
    add("data.seed", seed);
    if (recipe.model.path.empty()) add("model.init.seed", seed);
    for (const char* section : {"data.train_generator", "sft.demonstrations"})
      if (config::printed_value(recipe, std::string(section) + ".task") != "null")
        add(std::string(section) + ".seed", seed);
  }
  add("trainer.seed", seed + kOtherSamples * arm.samples);
  return settings;
}

void check_arms(Plan& plan, dist::Collectives& world) {
  if (!plan.isa.empty()) {
    constexpr std::array kSets = {ops::Isa::amx, ops::Isa::avx512, ops::Isa::avx2, ops::Isa::portable};
    std::vector<std::string> supported;
    for (const ops::Isa isa : kSets)
      if (ops::supported(isa)) supported.emplace_back(ops::name(isa));
    QRL_REQUIRE(std::ranges::count(supported, plan.isa) == 1, "isa",
                "an instruction set of this machine: " + base::joined(supported, ", "), base::quoted(plan.isa));
  }
  const config::LoadedRecipe base_recipe =
      config::load_recipe(train::keys(), plan.base, {}, false, config::RecipeUse::training);
  for (const report::RecipeLine& line : report::read_recipe_lines(base_recipe.annotated_yaml))
    if (line.origin != "default" && !line.origin.starts_with("mode ") && std::ranges::count(kElsewhere, line.key) == 0)
      plan.base_keys[line.key] = without_folders(line.value);
  std::vector<config::LoadedRecipe> loaded;
  for (const Arm& arm : plan.arms) {
    loaded.push_back(load(plan, arm));
    QRL_REQUIRE(loaded.back().recipe.trainer.total_training_steps > 0, place_of(arm),
                "trainer.total_training_steps above 0", "0");
    for (std::size_t i = 0; i + 1 < loaded.size(); ++i)
      check_difference(plan.arms[i], arm, values_of(loaded[i]), values_of(loaded.back()));
  }
  std::vector<std::string> held_out;
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    train::RunOutline outline = train::outline_run(loaded[i], {}, world);
    if (i > 0) continue;
    const train::RunPlan first = train::plan_run(std::move(outline), {.is_run = false}, world);
    if (first.recipe().eval.freq > 0)
      for (const train::PromptSet& set : first.held_out)
        held_out.push_back(train::score_name(set.data_source, first.recipe().eval));
  }
  for (const Endpoint& endpoint : plan.endpoints) check_endpoint(endpoint, loaded.front().recipe, held_out);
}

bool is_listed_metric(const std::string& metric) {
  return std::ranges::any_of(listed_metrics(), [&](const std::string& pattern) { return fits_all(pattern, metric); });
}

}  // namespace qrl::app
