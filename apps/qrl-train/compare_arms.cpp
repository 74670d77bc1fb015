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
#include "config/words.h"
#include "ops/isa.h"
#include "report/recipe_lines.h"
#include "state/hash.h"
#include "train/metrics/held_out_names.h"
#include "train/recipe/catalog.h"
#include "train/run_plan.h"

namespace qrl::app {

namespace {

using compare::Arm;
using compare::Endpoint;
using compare::Plan;

/// Arms must not differ in these keys (full keys, or sections that end with a point), which define the scores.
constexpr std::array kScoring = {"eval.", "reward.", "data.val_files", "data.val_generator."};
/// Keys that follow trainer.seed unless they are set. Arms with other samples keep their values.
constexpr std::array kSeeds = {"data.seed", "data.train_generator.seed", "sft.demonstrations.seed", "model.init.seed"};
/// Draws of other samples use trainer.seed + kOtherSamples * Arm::samples.
constexpr std::int64_t kOtherSamples = 1'000'000;

std::string place_of(const Arm& arm) { return "arm " + arm.name; }

void check_difference(const Arm& a, const Arm& b, const train::LoadedRecipe& of_a, const train::LoadedRecipe& of_b) {
  bool differ = a.samples != b.samples;
  for (const auto& [key, values] : report::differing_keys({of_a.resolved_yaml, of_b.resolved_yaml})) {
    if (key.ends_with(".seed")) continue;
    differ = true;
    const bool scores = std::ranges::any_of(kScoring, [&name = key](const std::string& each) {
      return name == each || (each.ends_with('.') && name.starts_with(each));
    });
    QRL_REQUIRE(!scores, place_of(b), "the scoring of arm " + a.name + ", " + key + " " + values[0], values[1],
                "arms are compared by one score");
  }
  QRL_REQUIRE(differ, place_of(b), "a recipe that differs from arm " + a.name, "the same recipe");
}

bool fits(std::string_view pattern, std::string_view part) {
  if (pattern == "SOURCE" || pattern == "NAME") return !part.empty();
  if (!pattern.ends_with('N') && !pattern.ends_with('K')) return pattern == part;
  const std::string_view stem = pattern.substr(0, pattern.size() - 1);
  return part.starts_with(stem) && base::number_in<std::int64_t>(part.substr(stem.size())).has_value();
}

/// Returns whether docs/reference/metrics.md lists the metric. Its SOURCE, NAME, N and K stand for any name or number.
bool is_listed(const std::string& metric) {
  static const std::regex row("\n\\| `([^`{]*)(?:\\{([^}`]*)\\}([^`]*))?`");
  static const std::string page(compare::metric_page().front().text);
  const std::vector<std::string_view> parts = config::split(metric, "/");
  for (std::sregex_iterator it(page.begin(), page.end(), row), end; it != end; ++it) {
    const std::string words = (*it)[2];
    for (const std::string_view word : config::split(words, ",")) {
      const std::string name = (*it)[1].str() + std::string(word) + (*it)[3].str();
      if (std::ranges::equal(config::split(name, "/"), parts, fits)) return true;
    }
  }
  return false;
}

/// `scores`: names of the held-out scores (val/SOURCE/mean@N).
void check_endpoint(const Endpoint& endpoint, const train::Recipe& recipe, const std::vector<std::string>& scores) {
  const std::string place = "endpoint " + endpoint.name, metric = endpoint.metric;
  const bool is_export = metric.starts_with("export/"), is_held_out = metric.starts_with("val/");
  std::vector<std::string> known;
  bool is_known = !is_export && !is_held_out && is_listed(metric);
  for (const std::string& score : scores) {
    const std::string source = score.substr(4, score.rfind('/') - 4);
    known.push_back(is_export ? "export/" + source : score);
    is_known = is_known || metric == known.back() ||
               (is_held_out && metric.starts_with("val/" + source + "/") &&
                metric.find("/mean@") == std::string::npos && is_listed(metric));
    if (!is_held_out) continue;
    known.push_back("val/" + source + "/score" + score.substr(score.rfind('/')));
    is_known = is_known || metric == known.back();
  }
  const std::string choices = !is_export && !is_held_out ? "a metric of docs/reference/metrics.md"
                              : known.empty()            ? "held-out prompts and eval.freq above 0"
                                                         : base::joined(known, ", ");
  QRL_REQUIRE(is_known, place, choices, base::quoted(metric));
  QRL_REQUIRE(!is_export || !train::trains_adapters(recipe), place, "a metric of runs with adapters",
              base::quoted(metric), "the held-out score is already that of the exported adapters");
  const std::int64_t last = recipe.trainer.total_training_steps, freq = recipe.eval.freq;
  for (const std::int64_t step : endpoint.steps) {
    QRL_REQUIRE(step >= 0 && step <= last, place, "steps from 0 to the last, " + std::to_string(last),
                std::to_string(step));
    QRL_REQUIRE(!is_export || step == last, place, "no steps: exported weights are scored after the last step",
                std::to_string(step));
    QRL_REQUIRE(!is_held_out || endpoint.is_range || step == last || step % freq == 0, place,
                "steps that are evaluated: eval.freq is " + std::to_string(freq), std::to_string(step));
  }
}

/// Returns a hash of all values of a run's recipe but seeds, folders and threads, and of the contents that it reads.
std::string digest_of(const train::RunPlan& run, const std::string& weights) {
  static const std::regex folder("\"/[^\"]*/([^\"/]*)\"");  // of absolute paths, which differ between checkouts
  const std::string values = report::without_seed(report::read_recipe_lines(run.loaded.resolved_yaml));
  state::Hash hash;
  hash.add(std::regex_replace(values, folder, "\"$1\"")).add(weights);
  for (const std::string* each :
       {&run.inputs.model, &run.inputs.train_prompts, &run.inputs.held_out_prompts, &run.inputs.sft_rows})
    hash.add(*each);
  return hash.hex().substr(0, 16);
}

void check_samples(const Arm& arm, const train::Recipe& recipe) {
  if (arm.samples == 0) return;
  QRL_REQUIRE(recipe.sft.train_files.empty() && !train::trains_adapters(recipe), place_of(arm), "no samples key",
              "samples: " + std::to_string(arm.samples),
              "sft.train_files and new adapters follow trainer.seed, as the samples do");
}

void check_isa(const std::string& wanted) {
  std::vector<std::string> supported;
  for (const ops::Isa isa : {ops::Isa::amx, ops::Isa::avx512, ops::Isa::avx2, ops::Isa::portable})
    if (ops::supported(isa)) supported.emplace_back(ops::name(isa));
  QRL_REQUIRE(wanted.empty() || std::ranges::count(supported, wanted) == 1, "isa",
              "an instruction set of this machine: " + base::joined(supported, ", "), base::quoted(wanted));
}

}  // namespace

std::vector<std::string> settings_of(const Plan& plan, const Arm& arm, std::int64_t seed) {
  std::vector<std::string> settings = arm.set;
  settings.push_back("trainer.seed=" + std::to_string(seed));
  if (arm.samples == 0) return settings;
  const train::Recipe recipe =
      train::load_recipe(train::keys(), plan.base, settings, true, train::RecipeUse::training).recipe;
  for (const char* key : kSeeds)
    if (train::keys().find(key)->acts(recipe))
      settings.push_back(std::string(key) + "=" + train::printed_value(recipe, key));
  settings.push_back("trainer.seed=" + std::to_string(seed + kOtherSamples * arm.samples));
  return settings;
}

void check_arms(Plan& plan, dist::Collectives& world) {
  check_isa(plan.isa);
  for (const std::string& column : plan.columns)
    QRL_REQUIRE(column.starts_with("export/") || is_listed(column), "columns", "a metric of docs/reference/metrics.md",
                base::quoted(column));
  std::vector<train::LoadedRecipe> loaded;
  std::map<std::string, std::string> weights;  // by model.path
  for (Arm& arm : plan.arms) {
    loaded.push_back(train::load_recipe(train::keys(), plan.base, settings_of(plan, arm, arm.seeds.front()), true,
                                        train::RecipeUse::training));
    for (std::size_t i = 0; i + 1 < loaded.size(); ++i) check_difference(plan.arms[i], arm, loaded[i], loaded.back());
  }
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    Arm& arm = plan.arms[i];
    const train::RunPlan run = train::plan_run(train::outline_run(loaded[i], {}, world), {}, world);
    const train::Recipe& recipe = run.recipe();
    check_samples(arm, recipe);
    if (i == 0) plan.steps = recipe.trainer.total_training_steps;
    QRL_REQUIRE(recipe.trainer.total_training_steps == plan.steps, place_of(arm),
                "the " + std::to_string(plan.steps) + " steps of arm " + plan.arms[0].name,
                std::to_string(recipe.trainer.total_training_steps) + " steps");
    std::vector<std::string> scores;
    if (recipe.eval.freq > 0)
      for (const train::PromptSet& set : run.held_out)
        scores.push_back(train::score_name(set.data_source, recipe.eval.n, false));
    for (const Endpoint& endpoint : plan.endpoints) check_endpoint(endpoint, recipe, scores);
    std::string& hash = weights[recipe.model.path];
    if (hash.empty() && !recipe.model.path.empty()) hash = model::weights_hash(run.model, run.policy.weights);
    arm.recipe = digest_of(run, hash);
  }
}

}  // namespace qrl::app
