#pragma once

#include "learner/objective/aggregation.h"
#include "learner/objective/corrections.h"
#include "learner/objective/kl.h"
#include "learner/objective/policy_losses.h"
#include "learner/objective/rejection.h"
#include "learner/objective/selection.h"

namespace qrl::learner {

struct ObjectiveSettings {
  const PolicyLoss* loss = nullptr;
  const Correction* method = nullptr;
  SurrogateSettings surrogate;
  CorrectionSettings correction;
  double weight_scale = 1;  ///< factor on the correction's weights
  RejectionSettings rejection;
  SelectionSettings selection;
  bool behaviour_in_ratio = false;
  config::LossAggMode loss_agg_mode = config::LossAggMode::seq_mean_token_mean;
  double kl_loss_coef = 0;
  const KlEstimator* kl = nullptr;  ///< with kl_loss_coef
  double entropy_coef = 0;
};

/// Returns the settings of a policy loss; throws an internal error without a loss and a correction.
ObjectiveSettings objective_settings(const LossOptions& options);

/// Holds a micro-batch's scalar shares of the mini-batch's terms, and token statistics.
struct Objective {
  torch::Tensor policy, kl;  ///< kl undefined without kl_loss_coef
  torch::Tensor total;       ///< policy + kl_loss_coef·kl − entropy_coef·entropy
  Surrogate surrogate;
  CorrectionWeights weights;
  torch::Tensor truncation;  ///< with acr: r_t, [M]; otherwise undefined
  Kept kept;
  Selected selected;
};

/// Aggregates −weight_t·J_t over kept and selected tokens, the KL penalty, and the entropy.
Objective objective(const ObjectiveTokens& tokens, const ObjectiveSettings& settings, const Denominators& denominators);

}  // namespace qrl::learner
