// Owns the list of the program's keys, and the options of those that select one.
#pragma once

#include <vector>

#include "config/keys/key.h"
#include "train/recipe/matched_forward.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

/// Holds the options of each key that selects one.
struct Catalog {
  config::Choices<learner::PolicyLoss> losses;       ///< algorithm.name
  config::Choices<learner::Correction> corrections;  ///< rollout_correction.method
  config::Choices<config::Option> modes;             ///< mode
  config::Choices<tasks::Generator> generators;  ///< task of data.train_generator, val_generator, sft.demonstrations
  config::Choices<tasks::VerifierChoice> verifiers;         ///< reward.verifier
  config::Choices<learner::KlEstimator> kl_estimators;      ///< algorithm.kl_loss_type
  config::Choices<rollout::AdvantageEstimator> estimators;  ///< algorithm.adv_estimator
};

/// Holds all keys of a recipe, and the catalog of their options.
class Keys final : public config::Keys {
 public:
  /// `decided` says what `auto` may choose; tests pass other values.
  explicit Keys(Catalog catalog, const MatchedForward& decided = decided_matched_forward());

  const Catalog& catalog() const { return catalog_; }
  const MatchedForward& matched_forward() const { return matched_forward_; }
  const Recipe& defaults() const override { return defaults_; }
  config::SelectedOptions selected_options(const Recipe& recipe) const override;
  std::vector<const config::Option*> options() const override;

 private:
  Catalog catalog_;
  MatchedForward matched_forward_;
  Recipe defaults_;
};

/// Returns the options of every key.
Catalog catalog();
const Keys& keys();

}  // namespace qrl::train
