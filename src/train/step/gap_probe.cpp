#include "train/step/gap_probe.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "rollout/rollout.h"
#include "train/plan/options.h"
#include "train/signals.h"

namespace qrl::train {

namespace {

constexpr std::uint32_t kProbeStep = 0xfffffffeU;  // step in the random key; training and evaluation use others

}  // namespace

std::vector<types::SampleRequest> probe_requests(const PromptSet& prompts, std::uint64_t seed, const ProbeSize& size) {
  base::RandomStream random(seed, base::RandomPurpose::probe, 0);
  std::vector<types::SampleRequest> requests;
  for (std::int32_t i = 0; i < size.num_prompts; ++i) {
    const types::Prompt& prompt = prompts.prompts[random.below(prompts.prompts.size())];
    requests.push_back({prompt.id, prompt.tokens, i * size.num_samples, size.num_samples});
  }
  return requests;
}

Metrics probe_gap(Sampler& sampler, learner::Learner& learner, std::span<const types::SampleRequest> requests,
                  const Recipe& recipe, const types::SamplingParams& sampling, const ProbeSize& size) {
  types::SamplingParams params = sampling;
  params.max_new_tokens = std::min(params.max_new_tokens, size.num_tokens);
  const FinishFirst finish_first;
  const std::vector<types::Completion> drawn =
      sampler.decoder.complete(requests, params, {recipe.trainer.seed, kProbeStep});

  std::vector<rollout::PackItem> items;
  for (std::size_t r = 0, i = 0; r < requests.size(); ++r)
    for (std::int32_t n = 0; n < requests[r].num_samples; ++n, ++i)
      items.push_back(rollout::sampled_item(requests[r].prompt_tokens, drawn[i], 0));
  GapSums sums;
  for (types::MicroBatch& batch : rollout::pack(items, recipe.actor.max_tokens_per_micro_batch)) {
    batch.replay = replay_of_old_logprobs(recipe, batch);
    const std::vector<float> learned = learner.score(batch, sample_params(recipe.rollout)).logprobs;
    for (std::size_t t = 0; t < learned.size(); ++t) {
      if (batch.loss_mask[t] != 0) sums.add(learned[t], batch.sampler_logprobs[t]);
    }
  }
  return {{"mismatch/probe_k1_kl", sums.k1()},
          {"mismatch/probe_k3_kl", sums.k3()},
          {"mismatch/probe_logp_abs_diff_mean", sums.mean_abs()},
          {"mismatch/probe_logp_abs_diff_max", sums.max_abs()}};
}

void check_gap(const Metrics& probe, const CorrectionRecipe& recipe) {
  if (!recipe.gap_limit) return;
  const double k3 = probe.at("mismatch/probe_k3_kl");
  if (k3 <= *recipe.gap_limit) return;
  const base::Error error(base::ErrorKind::guard, "gap probe",
                          "a k3 KL between sampler and learner of at most rollout_correction.gap_limit.k3_kl = " +
                              base::format("%.3g", *recipe.gap_limit),
                          base::format("%.3g", k3),
                          "choose a finer quant.rollout.weights or kv_cache, or raise the limit");
  if (recipe.gap_action == GapAction::stop) throw error;
  base::log_warning(error.what());
}

void GapSums::add(double learner_logprob, double sampler_logprob) {
  const double difference = learner_logprob - sampler_logprob, rho = std::exp(difference);
  ++count_;
  sum_ += difference;
  k3_ += std::expm1(difference) - difference;
  abs_ += std::abs(difference);
  if (!(std::abs(difference) <= max_abs_)) max_abs_ = std::abs(difference);
  rho_ += rho;
  rho_squared_ += rho * rho;
  if (!(rho <= 2)) ++beyond_2_;
}

double GapSums::k1() const { return -sum_ / static_cast<double>(count_); }
double GapSums::k3() const { return k3_ / static_cast<double>(count_); }
double GapSums::mean_abs() const { return abs_ / static_cast<double>(count_); }
double GapSums::ess() const { return rho_ * rho_ / (static_cast<double>(count_) * rho_squared_); }
double GapSums::share_beyond_2() const { return static_cast<double>(beyond_2_) / static_cast<double>(count_); }

}  // namespace qrl::train
