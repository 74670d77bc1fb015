#include "toys/loss/reinforce.h"

#include "learner/objective/objective.h"
#include "learner/objective/statistics.h"

namespace qrl::test {

namespace {

const config::NumberParam kReinforceScale{"algorithm.reinforce.scale", config::kPositive, 1, "a factor on the loss"};

/// Computes R_t·A without a clip (Williams 1992). The clip range carries the scale; nothing else reads it here.
learner::Surrogate plain_surrogate(const learner::SurrogateInput& input, const learner::SurrogateSettings& settings) {
  const torch::Tensor ratio = input.log_ratio.exp();
  return {settings.clip.low * ratio * input.tokens.advantages, torch::zeros(ratio.sizes(), torch::kUInt8),
          ratio.detach()};
}

void read_scale(const config::ParamValues& own, learner::SurrogateSettings& settings) {
  settings.clip.low = own.of(kReinforceScale);
}

void add_scale(const learner::ObjectiveTokens& tokens, const learner::ObjectiveSettings& settings,
               const learner::Objective&, learner::Statistics& statistics) {
  const auto count = static_cast<double>(tokens.sequences.num_tokens());
  statistics.add_mean("reinforce/scale", settings.surrogate.clip.low * count, count);
}

}  // namespace

const learner::PolicyLoss reinforce{{.word = "reinforce",
                                     .what = "ratios without a clip",
                                     .paper = "Williams 1992",
                                     .defaults = {{"algorithm.clip_ratio_c", "0"},
                                                  {"algorithm.loss_agg_mode", "token-mean"},
                                                  {"algorithm.norm_adv_by_std", "true"}},
                                     .constraints = {{"algorithm.clip_ratio_low", {"null"}, "there is no clip"}},
                                     .params = {kReinforceScale}},
                                    plain_surrogate,
                                    read_scale,
                                    add_scale};

}  // namespace qrl::test
