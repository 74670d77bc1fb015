// Owns loading a policy and its sampler outside a run, quantized and calibrated as in a run.
#pragma once

#include <string>

#include "dist/collectives.h"
#include "tasks/verifier.h"
#include "train/policy/policy.h"
#include "train/policy/quantizer.h"
#include "train/policy/sampler.h"
#include "train/recipe/recipe.h"

namespace qrl::app {

/// Returns the folder of a model or checkpoint that a user names: a folder, a Hub's name, or a run, whose newest sound
/// checkpoint it is. Throws like checkpoint_of_run.
std::string given_model(const std::string& name);

/// Loads what given_model takes; for "", the recipe's policy before training.
train::Policy policy_of(const train::Recipe& recipe, const std::string& checkpoint);

struct LoadedSampler {
  LoadedSampler(train::Policy loaded, const train::Recipe& recipe, const std::string& from, dist::Collectives& world,
                std::int64_t longest_prompt_tokens);

  /// Return whether `publish` must calibrate an int8 profile, or KV scales, on the recipe's training prompts.
  bool calibrates_profile(const train::Recipe& recipe) const;
  bool calibrates_kv(const train::Recipe& recipe) const;
  /// Publishes the policy, calibrated as in training with this recipe.
  void publish(const train::Recipe& recipe, const tasks::Verifier& verifier);
  void say_what_it_samples(const train::Recipe& recipe) const;

  train::Policy policy;
  std::string checkpoint;  ///< "": the recipe's own policy
  train::Sampler sampler;
  train::QuantizerState quantizer;
};

}  // namespace qrl::app
