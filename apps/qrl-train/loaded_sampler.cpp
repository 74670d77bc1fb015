#include "loaded_sampler.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hub.h"
#include "base/log.h"
#include "train/checkpoint/checkpoint.h"
#include "train/evaluate/export_score.h"
#include "train/files/checkpoint_folder.h"
#include "train/plan/formats.h"
#include "train/plan/options.h"
#include "train/plan/recorded_recipe.h"
#include "train/policy/adapters.h"
#include "train/prompts/prompts.h"

namespace qrl::app {

std::string given_model(const std::string& name) {
  return name.empty() ? name : train::checkpoint_of_run(base::local_model(name)).string();
}

train::Policy policy_of(const train::Recipe& recipe, const std::string& checkpoint) {
  return checkpoint.empty() ? train::initial_policy(recipe) : train::load_policy(given_model(checkpoint));
}

namespace {

bool has_adapters_beside_base(const train::Policy& policy, const train::Recipe& recipe) {
  return policy.adapter && recipe.lora.publish == train::LoraPublish::adapter;
}

train::Recipe with_adapters_of(const train::Policy& policy, const train::Recipe& recipe) {
  train::Recipe adapted = recipe;
  adapted.lora = {};
  if (has_adapters_beside_base(policy, recipe)) static_cast<model::LoraConfig&>(adapted.lora) = policy.adapter->lora;
  return adapted;
}

}  // namespace

LoadedSampler::LoadedSampler(train::Policy loaded, const train::Recipe& recipe, const std::string& from,
                             dist::Collectives& world, std::int64_t longest_prompt_tokens)
    : policy(std::move(loaded)),
      checkpoint(given_model(from)),
      sampler(policy.config, with_adapters_of(policy, recipe), world, longest_prompt_tokens, {}, &policy.tokenizer) {
  QRL_REQUIRE(!policy.adapter || recipe.quant.profile.empty(), "quant.rollout.profile", "null for a policy of adapters",
              recipe.quant.profile, "add --set quant.rollout.profile=null");
  if (!checkpoint.empty()) quantizer = train::load_quantizer(checkpoint, policy.config, world);
  // A checkpoint's profile applies to int8 only.
  if (recipe.quant.weights != train::WeightFormat::int8) quantizer.profile = nullptr;
}

bool LoadedSampler::calibrates_profile(const train::Recipe& recipe) const {
  return !recipe.quant.profile.empty() && quantizer.profile == nullptr;
}

bool LoadedSampler::calibrates_kv(const train::Recipe& recipe) const {
  const bool brings_scales = recipe.quant.kv_when == train::CalibrateKv::once && quantizer.kv_scales;
  return train::kv_format(recipe.quant) == quant::KvFormat::fp8_e4m3 && !brings_scales;
}

void LoadedSampler::publish(const train::Recipe& recipe, const tasks::Verifier& verifier) {
  if (quantizer.profile != nullptr) train::require_same_profile(recipe, policy.config, *quantizer.profile);
  const bool lacks_profile = calibrates_profile(recipe);
  train::PromptSet prompts;
  std::vector<std::vector<types::TokenId>> calibration;
  if (lacks_profile || calibrates_kv(recipe)) {
    prompts = train::load_train_prompts(recipe, policy.tokenizer, verifier);
    const bool of_run = train::is_checkpoint(checkpoint);
    const std::int64_t drawn = of_run ? train::read_checkpoint_state(checkpoint).state.prompts_drawn : 0;
    calibration = train::calibration_prompts(prompts, recipe.trainer.seed, static_cast<std::uint64_t>(drawn));
  }
  if (lacks_profile) quantizer.profile = train::find_profile(policy.config, policy.weights, prompts, recipe);
  sampler.snapshot.use_profile(quantizer.profile);
  if (has_adapters_beside_base(policy, recipe)) {
    const train::PolicyAdapter& adapter = *policy.adapter;
    sampler.snapshot.publish(adapter.base, 0);
    sampler.snapshot.publish_adapters(model::views(model::read_adapters(policy.config, adapter.lora, adapter.adapters)),
                                      0);
  } else {
    sampler.snapshot.publish(policy.weights, 0);
  }
  train::load_published(sampler, calibration, recipe.quant, quantizer);
}

void LoadedSampler::say_what_it_samples(const train::Recipe& recipe) const {
  const std::string whose = checkpoint.empty() ? "the recipe's model before training" : checkpoint;
  train::Recipe sampled = with_adapters_of(policy, recipe);
  sampled.quant.rotation = sampler.snapshot.rotation() ? train::RotationKind::hadamard : train::RotationKind::none;
  const std::string what = train::policy_text(sampled);
  std::string more;
  if (train::is_checkpoint(checkpoint)) {
    const train::KnownScores known = train::known_scores(checkpoint);
    if (known.weights != what) more = "; its run sampled from " + known.text();
    else if (!known.scores.empty()) more = "; its run scored " + known.scores + " with them";
  } else if (!checkpoint.empty() && !has_adapters_beside_base(policy, recipe) &&
             quant::spec(train::snapshot_formats(recipe.quant).linear).has_weight_scales()) {
    const std::string own = policy.config.dtype == base::DType::f32 ? "fp32" : "bf16";
    more =
        "; quantizing the folder's weights now may lose what a merged or fine-tuned model learned: --set "
        "quant.rollout.weights=" +
        own + " samples it unquantized";
  }
  base::log_info("sampled from " + what + ", of " + whose + more);
}

}  // namespace qrl::app
