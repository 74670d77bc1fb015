// Trains in the test's own process, with the test's own verifier.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/reader.h"
#include "decoder/cpu/kv_calibration.h"
#include "learner/learner.h"
#include "support/files.h"
#include "train/plan/catalog.h"
#include "train/plan/options.h"
#include "train/policy/policy.h"
#include "train/prompts/prompts.h"
#include "train/run/training.h"

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
      : loaded(load(std::move(settings), steps)),
        world(dist::make_solo()),
        policy(train::make_policy(recipe)),
        prompts(train::load_train_prompts(recipe, policy.tokenizer, verifier)),
        folder(dir / "run"),
        metrics(folder.metrics_file(), 0),
        setup{recipe, loaded.resolved_yaml, inputs, *world, policy, verifier, prompts, held_out, &folder},
        checkpointer(setup, state, metrics, sft_metrics, quantizer),
        learner(policy.config, policy.weights, train::learner_options(recipe), *world),
        trainer(setup, state, learner, nullptr, quantizer, metrics, {}, checkpointer) {}

  static config::LoadedRecipe load(std::vector<std::string> settings, int steps) {
    for (const std::string& setting : {std::string("sft.steps=0"), std::string("eval.freq=0"),
                                       "trainer.total_training_steps=" + std::to_string(steps)})
      settings.push_back(setting);
    return config::load_recipe(train::keys(), QRL_SOURCE_DIR "/tests/train/tiny.yaml", settings, true);
  }

  /// Returns fp8 scales for the weights now published, from the calibration prompts after `num_taken` training prompts
  /// and from the responses seen.
  decoder::KvScales kv_scales_after(std::uint64_t num_taken) const {
    auto calibration = train::calibration_prompts(prompts, recipe.trainer.seed, num_taken);
    calibration.insert(calibration.end(), quantizer.responses.begin(), quantizer.responses.end());
    return decoder::calibrate_kv(trainer.sampler.snapshot, calibration,
                                 {recipe.quant.kv_percentile, recipe.quant.kv_margin});
  }

  TempDir dir;
  config::LoadedRecipe loaded;
  config::Recipe& recipe = loaded.recipe;
  std::unique_ptr<dist::Collectives> world;
  train::Policy policy;
  train::PromptSet prompts;
  std::vector<train::PromptSet> held_out;
  train::RunFolder folder;
  train::RunState state;
  train::MetricsFile metrics, sft_metrics;
  train::Inputs inputs;
  train::QuantizerState quantizer;
  train::RunSetup setup;
  train::Checkpointer checkpointer;
  learner::Learner learner;
  train::Training trainer;
};

}  // namespace qrl::test
