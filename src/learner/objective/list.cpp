#include "learner/objective/list.h"

#include "learner/objective/corrections.h"

namespace qrl::learner {

extern const PolicyLoss grpo_loss, dr_grpo_loss, dapo_loss, gspo_loss, tbpo_loss, cispo_loss, sapo_loss, dppo_tv_loss,
    dppo_kl_loss;
extern const Correction none_correction, tis_correction, icepop_correction, mis_prod_correction, mis_geo_correction,
    tbpo_correction, ais_correction;

config::Choices<PolicyLoss> policy_losses() {
  return {{&grpo_loss, &dr_grpo_loss, &dapo_loss, &gspo_loss, &tbpo_loss, &cispo_loss, &sapo_loss, &dppo_tv_loss,
           &dppo_kl_loss},
          "grpo"};
}

config::Choices<Correction> corrections() {
  return {{&none_correction, &tis_correction, &icepop_correction, &mis_prod_correction, &mis_geo_correction,
           &tbpo_correction, &ais_correction},
          "tis"};
}

std::vector<config::Constraint> constraints_of_correction(std::string_view own_cap, bool one_bound) {
  std::vector<config::Constraint> constraints{
      {"rollout_correction.behaviour_in_ratio",
       {"false"},
       "the gap would be counted twice, in the ratio and as a weight: use only one"}};
  if (!own_cap.empty()) constraints.push_back({"rollout_correction.threshold", {"null"}, std::string(own_cap)});
  if (one_bound || !own_cap.empty())
    constraints.push_back(
        {"rollout_correction.threshold_low", {"null"}, "the method has no lower bound: set it to null or delete it"});
  return constraints;
}

}  // namespace qrl::learner
