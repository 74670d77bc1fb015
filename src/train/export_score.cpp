#include "train/export_score.h"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/bf16.h"
#include "state/folder.h"
#include "train/evaluate.h"

namespace qrl::train {

namespace {

constexpr const char* kFile = "export_score.json";

/// The recipe whose evaluation an export gets: no low-bit format, one greedy response a prompt.
config::Recipe export_recipe(const config::Recipe& recipe) {
  config::Recipe plain = recipe;
  plain.quant = config::QuantRecipe{};
  plain.quant.weights = config::samples_on_gpu(recipe) ? config::WeightFormat::bf16 : config::WeightFormat::f32;
  plain.rollout.bitwise = false;
  plain.eval = config::EvalRecipe{};
  plain.eval.n = 1;
  plain.eval.temperature = 0;
  return plain;
}

/// The learner's masters as `qrl-train export` writes them.
model::WeightSource exported(const learner::Learner& learner, const model::ModelConfig& config) {
  model::WeightSource masters = learner.all_masters();
  if (config.dtype == base::DType::f32) return masters;
  return model::WeightSource([masters](const model::WeightSpec& spec, float* to) {
    masters.read(spec, to);
    for (std::int64_t i = 0; i < spec.shape.numel(); ++i) to[i] = base::to_float(base::to_bf16(to[i]));
  });
}

/// What the file of this step has; null when there is none.
nlohmann::ordered_json read_scores(const RunParts& parts) {
  std::ifstream in(parts.folder->path() / kFile);
  const auto json = nlohmann::ordered_json::parse(in, nullptr, false);
  const bool is_this = json.is_object() && json.value("step", std::int64_t{-1}) == parts.state.step &&
                       json.value("held_out", std::string()) == parts.inputs.held_out_prompts;
  return is_this ? json : nlohmann::ordered_json();
}

nlohmann::ordered_json measure(const RunParts& parts, const learner::Learner& learner,
                               const std::vector<PromptSet>& held_out) {
  const config::Recipe recipe = export_recipe(parts.recipe);
  const model::ModelConfig& config = parts.policy.config;
  Sampler sampler(config, recipe, parts.world, recipe.data.max_prompt_length);
  sampler.snapshot.publish(exported(learner, config), 0);
  QuantizerState none;
  load_published(sampler, {}, recipe.quant, none);
  const Metrics metrics =
      evaluate(sampler.decoder, held_out, recipe, eval_sampling(recipe, config, parts.policy.tokenizer),
               parts.policy.tokenizer, parts.verifier, parts.world);
  nlohmann::ordered_json json = {{"step", parts.state.step},
                                 {"held_out", parts.inputs.held_out_prompts},
                                 {"compute", config::samples_on_gpu(recipe) ? "bf16" : "fp32"},
                                 {"temperature", 0}};
  for (const PromptSet& set : held_out)
    json["scores"][set.data_source] = metrics.at(score_name(set.data_source, recipe.eval));
  return json;
}

}  // namespace

std::vector<std::string> export_score_lines(const RunParts& parts, const learner::Learner& learner,
                                            const std::vector<PromptSet>& held_out) {
  if (held_out.empty() || parts.recipe.eval.freq == 0 || parts.state.step == 0) return {};
  nlohmann::ordered_json json;
  if (parts.folder != nullptr) json = read_scores(parts);
  if (parts.world.any(!json.is_null())) {
    if (parts.folder == nullptr) return {};
  } else {
    json = measure(parts, learner, held_out);
    if (parts.folder == nullptr) return {};
    state::replace_file(parts.folder->path() / kFile, json.dump(1) + "\n");
  }
  std::vector<std::string> lines;
  for (const auto& [source, score] : json["scores"].items()) {
    char text[200];
    std::snprintf(text, sizeof text, "exported model (%s, greedy)  %s: %.3f",
                  json["compute"].get<std::string>().c_str(), source.c_str(), score.get<double>());
    lines.emplace_back(text);
  }
  return lines;
}

}  // namespace qrl::train
