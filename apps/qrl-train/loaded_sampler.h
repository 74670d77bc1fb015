// Owns how a command outside a run gets a policy and its sampler, quantized and calibrated as the run does it. Knows
// nothing of what is drawn.
#pragma once

#include <string>

#include "config/recipe.h"
#include "dist/collectives.h"
#include "tasks/verifier.h"
#include "train/quantizer.h"
#include "train/session.h"

namespace qrl::app {

/// The policy of `checkpoint` (a checkpoint or a Hugging Face folder), or with "" the recipe's own before training.
train::Policy policy_of(const config::Recipe& recipe, const std::string& checkpoint);

/// A policy, its sampler, and what its checkpoint keeps of their quantizers.
struct LoadedSampler {
  LoadedSampler(train::Policy loaded, const config::Recipe& recipe, const std::string& from, dist::Collectives& world,
                std::int64_t longest_prompt_tokens);

  /// Whether `publish` reads the recipe's training prompts, to calibrate what the checkpoint did not bring.
  bool calibrates_profile(const config::Recipe& recipe) const;
  bool calibrates_kv(const config::Recipe& recipe) const;
  /// Publishes as training with this recipe does; calibrates as the run would.
  void publish(const config::Recipe& recipe, const tasks::Verifier& verifier);
  /// Logs whose weights it samples and in which formats: a run's policy and its export score differently.
  void say_what_it_samples(const config::Recipe& recipe) const;

  train::Policy policy;
  std::string checkpoint;  ///< "": the recipe's own policy
  train::Sampler sampler;
  train::QuantizerState quantizer;
};

}  // namespace qrl::app
