#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "learner/learner.h"
#include "model_bench.h"
#include "types/batch.h"
#include "types/prompt.h"

namespace qrl::app {

/// Holds packed micro-batches of prompts·n sequences, with random prompts and advantages of ±1.
struct LearnerWork {
  LearnerWork(const ModelBench& bench, const std::vector<types::Completion>& completions);

  std::vector<std::vector<types::TokenId>> prompts;
  std::vector<types::MicroBatch> batches;
  types::GlobalCounts counts;
};

/// Accumulates all micro-batches' gradients and updates the weights. If `sampled`, the log-probs in `work` must come
/// from sampling with the current weights. A bitwise learner then throws unless its own log-probs are equal.
learner::UpdateReport learn(learner::Learner& learner, const LearnerWork& work, const train::Recipe& recipe,
                            bool sampled);

void add_learner_figures(nlohmann::ordered_json& result, const ModelBench& bench, const LearnerWork& work,
                         double learner_s);

}  // namespace qrl::app
