#include "train/evaluate/export_score.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/bf16.h"
#include "base/text.h"
#include "report/measures.h"
#include "report/rows.h"
#include "state/file.h"
#include "state/folder.h"
#include "state/json.h"
#include "train/evaluate/evaluate.h"
#include "train/files/checkpoint_folder.h"
#include "train/metrics/held_out_names.h"
#include "train/metrics/progress.h"
#include "train/plan/formats.h"
#include "train/plan/options.h"
#include "train/policy/quantizer.h"
#include "train/policy/sampler.h"
#include "train/prompts/prompts.h"
#include "train/recipe/automatic.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

namespace qrl::train {

namespace {

constexpr std::uint64_t kMaxFile_bytes = 1 << 20;
constexpr const char* kMeanScores = "mean_scores";  // sets whose score is a mean score, not a share

Recipe export_recipe(const Recipe& recipe) {
  Recipe plain = recipe;
  plain.quant = QuantRecipe{};
  plain.quant.weights = samples_on_gpu(recipe) ? WeightFormat::bf16 : WeightFormat::f32;
  plain.rollout.bitwise = false;
  (void)resolve_automatic(plain);
  plain.eval = EvalRecipe{};
  plain.eval.n = 1;
  plain.eval.temperature = 0;
  return plain;
}

model::WeightSource exported(const learner::Learner& learner, const model::ModelConfig& config) {
  model::WeightSource masters = learner.state().all_masters();
  if (config.dtype == base::DType::f32) return masters;
  return model::WeightSource([masters](const model::WeightSpec& spec, float* to) {
    masters.read(spec, to);
    for (std::int64_t i = 0; i < spec.shape.numel(); ++i) to[i] = base::to_float(base::to_bf16(to[i]));
  });
}

nlohmann::ordered_json read_scores(const std::filesystem::path& run, std::int64_t step) {
  const std::filesystem::path file = run / kExportScoreFile;
  if (!std::filesystem::exists(file)) return {};
  const nlohmann::ordered_json json = state::ordered_json_or_null(state::read_text(file, kMaxFile_bytes));
  const bool is_this = json.is_object() && json.value("step", std::int64_t{-1}) == step && json.contains("scores");
  return is_this ? json : nlohmann::ordered_json();
}

nlohmann::ordered_json measure(const RunContext& run, std::int64_t step, const learner::Learner& learner,
                               const std::vector<PromptSet>& held_out) {
  const Recipe recipe = export_recipe(run.recipe());
  const model::ModelConfig& config = run.plan.model;
  Sampler sampler(config, recipe, run.world, recipe.data.max_prompt_length, {}, &run.plan.policy.tokenizer);
  sampler.snapshot.publish(exported(learner, config), 0);
  QuantizerState none;
  load_published(sampler, {}, recipe.quant, none);
  const GenerationProgress progress("evaluation of the exported model", num_responses(held_out, recipe.eval, run.world),
                                    sampler.decoder);
  const Metrics metrics =
      evaluate(sampler.decoder, held_out, recipe, eval_sampling(recipe, config, run.plan.policy.tokenizer),
               run.plan.policy.tokenizer, *run.plan.verifier, run.plan.conversations.get(), run.world);
  nlohmann::ordered_json json = {{"step", step},
                                 {"held_out", run.plan.inputs.held_out_prompts},
                                 {"compute", samples_on_gpu(recipe) ? "bf16" : "fp32"},
                                 {"temperature", 0}};
  report::Measures measures;
  if (run.folder != nullptr) measures = report::read_measures(run.folder->metrics_file());
  measures.add(metrics);  // decides for sets that training did not evaluate
  for (const PromptSet& set : held_out) {
    const bool by_score = measures.held_out_by_score(set.data_source);
    json["scores"][set.data_source] = metrics.at(score_name(set.data_source, recipe.eval.n, by_score));
    if (by_score) json[kMeanScores].push_back(set.data_source);
  }
  return json;
}

/// Names the format of the matmuls, which may differ from the dtype of the exported weights.
std::string how_scored(const nlohmann::ordered_json& json) {
  return "computed in " + json.value("compute", std::string()) + ", greedy";
}

std::string scores_of(const report::Metrics& metrics, const report::Measures& measures) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    if (!measures.is_held_out_score(name) || !std::isfinite(value)) continue;
    text += (text.empty() ? "" : ", ") + shown_score_name(name) + base::format(" %.3f", value);
  }
  return text;
}

/// Returns the name of a set in export_score.json, followed by "mean score" if it has one instead of a share.
std::string named_set(const nlohmann::ordered_json& json, const std::string& source) {
  const auto by_score = json.find(kMeanScores);
  const bool is_score =
      by_score != json.end() && std::find(by_score->begin(), by_score->end(), source) != by_score->end();
  return is_score ? source + " mean score" : source;
}

std::string scores_of_export(const std::filesystem::path& run, std::int64_t step) {
  const nlohmann::ordered_json json = read_scores(run, step);
  if (json.is_null()) return {};
  std::string text;
  for (const auto& [source, score] : json["scores"].items())
    text += (text.empty() ? "" : ", ") + named_set(json, source) + base::format(" %.3f", score.get<double>());
  return text.empty() ? text : text + " (" + how_scored(json) + ")";
}

}  // namespace

std::vector<std::string> export_score_lines(const RunContext& run, std::int64_t step, const learner::Learner& learner) {
  const std::vector<PromptSet>& held_out = run.plan.held_out;
  // Skips adapters: training scored them in their exported form, and a full fp32 model may exceed the memory.
  if (learner.has_adapters()) return {};
  if (held_out.empty() || run.recipe().eval.freq == 0 || step == 0) return {};
  nlohmann::ordered_json json;
  if (run.folder != nullptr) json = read_scores(run.folder->path(), step);
  if (!json.is_null() && json.value("held_out", std::string()) != run.plan.inputs.held_out_prompts) json = nullptr;
  if (run.world.any(!json.is_null())) {
    if (run.folder == nullptr) return {};
  } else {
    json = measure(run, step, learner, held_out);
    if (run.folder == nullptr) return {};
    state::replace_file(run.folder->path() / kExportScoreFile, json.dump(1) + "\n");
  }
  std::vector<std::string> lines;
  for (const auto& [source, score] : json["scores"].items()) {
    lines.push_back(base::format("exported model (%s)  %s: %.3f", how_scored(json).c_str(),
                                 named_set(json, source).c_str(), score.get<double>()));
  }
  return lines;
}

KnownScores known_scores(const std::filesystem::path& checkpoint) {
  const Recipe recipe = load_recipe(train::keys(), checkpoint / "recipe.yaml", {}, false, RecipeUse::record).recipe;
  KnownScores known{policy_text(recipe), {}, {}};
  const std::optional<std::int64_t> step = rl_step_of(checkpoint);
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(checkpoint, error).parent_path();
  if (!step || error || folder.filename() != "checkpoints") return known;
  report::Measures measures;
  for (const report::Row& row : report::read_rows(folder.parent_path() / "metrics.jsonl").rows) {
    measures.add(row.metrics);
    if (row.step == *step) known.scores = scores_of(row.metrics, measures);
  }
  known.of_export = scores_of_export(folder.parent_path(), *step);
  return known;
}

}  // namespace qrl::train
