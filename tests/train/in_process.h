// Trains in the test's own process, with the test's own verifier.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "decoder/cpu/teacher_forcing.h"
#include "learner/learner.h"
#include "support/files.h"
#include "train/plan/options.h"
#include "train/policy/policy.h"
#include "train/prompts/prompts.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"
#include "train/run_plan.h"
#include "train/trainer.h"

namespace qrl::test {

/// Does not judge; every verdict is `verdict`, after a call of `on_judge`.
struct FakeVerifier final : tasks::RuleVerifier {
  void check_ground_truth(const tasks::Question&, const std::string&) const override {}
  std::shared_ptr<const types::Gold> prepare(const tasks::Question&) const override {
    return std::make_shared<types::Gold>();
  }
  reward::Verdict judge_one(std::string_view, const types::Gold&) const noexcept override {
    if (on_judge) on_judge();
    return verdict;
  }
  reward::Verdict verdict;
  std::function<void()> on_judge;
};

/// Trains with the tiny recipe, without its cold start and evaluation. Its settings may change during training
/// (`recipe`).
struct Training {
  Training(const tasks::Verifier& verifier, std::vector<std::string> settings, int steps = 1)
      : world(dist::make_solo()),
        plan(plan_of(verifier, load(std::move(settings), steps))),
        folder(dir / "run"),
        metrics(folder.metrics_file(), 0),
        run{plan, *world, &folder},
        checkpointer(run, state, metrics, sft_metrics, quantizer),
        learner(plan.model, plan.policy.weights, plan.learner, *world),
        trainer(run, state, learner, nullptr, quantizer, metrics, {}, checkpointer) {}

  static train::LoadedRecipe load(std::vector<std::string> settings, int steps) {
    for (const std::string& setting : {std::string("sft.steps=0"), std::string("eval.freq=0"),
                                       "trainer.total_training_steps=" + std::to_string(steps)})
      settings.push_back(setting);
    return train::load_recipe(train::keys(), QRL_SOURCE_DIR "/tests/train/tiny.yaml", settings, true);
  }

  /// Plans the recipe's run with the test's verifier, which outlives it, and without held-out prompts.
  static train::RunPlan plan_of(const tasks::Verifier& verifier, const train::LoadedRecipe& loaded) {
    train::RunPlan plan{{.loaded = loaded, .model = train::model_config(loaded.recipe)},
                        train::make_policy(loaded.recipe)};
    plan.verifier = {&verifier, [](const tasks::Verifier*) {}};
    plan.prompts = train::load_train_prompts(loaded.recipe, plan.policy.tokenizer, verifier);
    plan.learner = train::learner_options(loaded.recipe);
    plan.loss = train::loss_options(loaded.recipe);
    plan.train_sampling = train::train_sampling(loaded.recipe, plan.model, plan.policy.tokenizer);
    plan.eval_sampling = train::eval_sampling(loaded.recipe, plan.model, plan.policy.tokenizer);
    return plan;
  }

  /// Returns fp8 scales for the weights now published, from the calibration prompts after `num_taken` training prompts
  /// and from the responses seen.
  decoder::KvScales kv_scales_after(std::uint64_t num_taken) const {
    auto calibration = train::calibration_prompts(plan.prompts, recipe.trainer.seed, num_taken);
    calibration.insert(calibration.end(), quantizer.responses.begin(), quantizer.responses.end());
    return decoder::calibrate_kv(trainer.sampler.snapshot, calibration,
                                 {recipe.quant.kv_percentile, recipe.quant.kv_margin});
  }

  TempDir dir;
  std::unique_ptr<dist::Collectives> world;
  train::RunPlan plan;
  train::Recipe& recipe = plan.loaded.recipe;
  train::RunFolder folder;
  train::RunState state;
  train::MetricsFile metrics, sft_metrics;
  train::QuantizerState quantizer;
  train::RunContext run;
  train::Checkpointer checkpointer;
  learner::Learner learner;
  train::Trainer trainer;
};

}  // namespace qrl::test
