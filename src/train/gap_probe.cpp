#include "train/gap_probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "rollout/rollout.h"

namespace qrl::train {

namespace {

// Ours: enough to see a broken publish, and at most a hundredth of a step.
constexpr std::int64_t kProbePrompts = 4;
constexpr std::int32_t kProbeTokens = 16;
constexpr std::uint32_t kProbeStep = 0xffffffffU;  // no training step draws with this key

constexpr const char* kSame = "; same storage";

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

std::string of_sampler(const ops::PackedLinear& packed) {
  std::string line = std::string(quant::name(packed.format)) + " [" + std::to_string(packed.out) + ", " +
                     std::to_string(packed.in) + "]";
  if (!packed.scales.empty()) {
    line += ", scales [" + std::to_string(packed.scales.shape()[0]) + ", " + std::to_string(packed.out) + "] " +
            std::string(base::name(packed.scales.view().dtype));
  }
  return line;
}

}  // namespace

Metrics probe_gap(Sampler& sampler, learner::Learner& learner, const PromptSet& prompts, const config::Recipe& recipe,
                  const types::SamplingParams& sampling) {
  base::RandomStream random(recipe.trainer.seed, base::RandomPurpose::probe, 0);
  std::vector<types::SampleRequest> requests;
  for (std::int64_t i = 0; i < kProbePrompts; ++i) {
    const types::Prompt& prompt = prompts.prompts[random.below(prompts.prompts.size())];
    requests.push_back({prompt.id, prompt.tokens, static_cast<std::int32_t>(i), 1});
  }
  types::SamplingParams params = sampling;
  params.max_new_tokens = std::min(params.max_new_tokens, kProbeTokens);
  const std::vector<types::Completion> drawn =
      sampler.complete_always(requests, params, {recipe.trainer.seed, kProbeStep});

  std::vector<rollout::PackItem> items;
  for (std::size_t i = 0; i < drawn.size(); ++i)
    items.push_back({requests[i].prompt_tokens, drawn[i].tokens, drawn[i].sampler_logprobs, 0});
  double count = 0, k1 = 0, k3 = 0, mean = 0, most = 0;
  for (const types::MicroBatch& batch : rollout::pack(items, recipe.actor.max_tokens_per_micro_batch)) {
    const std::vector<float> learned = learner.score(batch, draw_params(recipe.rollout)).logprobs;
    for (std::size_t t = 0; t < learned.size(); ++t) {
      if (batch.loss_mask[t] == 0) continue;
      const double difference = static_cast<double>(learned[t]) - static_cast<double>(batch.sampler_logprobs[t]);
      ++count;
      k1 -= difference;
      k3 += std::expm1(difference) - difference;
      mean += std::abs(difference);
      if (!(std::abs(difference) <= most)) most = std::abs(difference);  // a NaN stays
    }
  }
  return {{"mismatch/probe_k1_kl", k1 / count},
          {"mismatch/probe_k3_kl", k3 / count},
          {"mismatch/probe_logp_abs_diff_mean", mean / count},
          {"mismatch/probe_logp_abs_diff_max", most}};
}

void check_gap(const Metrics& probe, const config::CorrectionRecipe& recipe) {
  if (!recipe.gap_limit) return;
  const double k3 = probe.at("mismatch/probe_k3_kl");
  if (k3 <= *recipe.gap_limit) return;
  const base::Error error(base::ErrorKind::guard, "gap probe",
                          "a k3 KL between sampler and learner of at most rollout_correction.gap_limit.k3_kl = " +
                              short_number(*recipe.gap_limit),
                          short_number(k3), "choose a finer quant.rollout.weights or kv_cache, or raise the limit");
  if (recipe.gap_action == config::GapAction::stop) throw error;
  base::log_warning(error.what());
}

std::vector<std::string> quant_audit(const learner::Learner& learner, const model::Snapshot& sampler) {
  const model::Snapshot* shared = learner.published();
  const bool reads_snapshot = learner.forward_mode() != config::LearnerForward::bf16;
  std::vector<std::string> lines;
  const auto add = [&](const std::string& name, const std::string& described, const void* of_sampler_data,
                       const void* of_learner_data) {
    std::string line = name + ": sampler " + described + "; learner ";
    if (!reads_snapshot) line += "its own copy of the masters";
    else line += std::string(train::name(learner.forward_mode()));
    line += reads_snapshot && of_sampler_data == of_learner_data ? kSame : "; storage of its own";
    lines.push_back(line);
  };
  const auto add_linear = [&](const std::string& name, const ops::PackedLinear& ours, const ops::PackedLinear* theirs) {
    add(name, of_sampler(ours), ours.panels.view().data, theirs != nullptr ? theirs->panels.view().data : nullptr);
  };
  const base::View& table = sampler.embedding_VD().view();
  add("embed_tokens", std::string(base::name(table.dtype)) + " " + table.shape.to_string(), table.data,
      shared != nullptr ? shared->embedding_VD().view().data : nullptr);
  for (std::int64_t idx = 0; idx < sampler.config().num_hidden_layers; ++idx) {
    const model::LayerSnapshot& ours = sampler.layer(idx);
    const model::LayerSnapshot* theirs = shared != nullptr ? &shared->layer(idx) : nullptr;
    const std::string prefix = "layers." + std::to_string(idx) + ".";
    add_linear(prefix + "qkv", ours.qkv, theirs != nullptr ? &theirs->qkv : nullptr);
    add_linear(prefix + "o", ours.o, theirs != nullptr ? &theirs->o : nullptr);
    add_linear(prefix + "gate_up", ours.gate_up, theirs != nullptr ? &theirs->gate_up : nullptr);
    add_linear(prefix + "down", ours.down, theirs != nullptr ? &theirs->down : nullptr);
  }
  add_linear("lm_head", sampler.lm_head(), shared != nullptr ? &shared->lm_head() : nullptr);
  return lines;
}

std::string audit_summary(const std::vector<std::string>& audit) {
  std::map<std::string, int> kinds;
  std::int64_t same = 0;
  for (const std::string& line : audit) {
    const std::size_t colon = line.find(": sampler ") + 10;
    if (line.starts_with("layers.")) ++kinds[line.substr(colon, line.find(" [", colon) - colon)];
    same += line.ends_with(kSame) ? 1 : 0;
  }
  std::string summary = "linear layers of the sampler:";
  for (const auto& [format, count] : kinds) summary += " " + std::to_string(count) + " × " + format + ",";
  summary.back() = ';';
  return summary + " of " + std::to_string(audit.size()) + " tensors the learner's forward pass reads " +
         std::to_string(same) + " in place (quant_audit.txt)";
}

}  // namespace qrl::train
