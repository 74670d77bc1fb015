#pragma once

#include <cstdint>

#include "learner/options.h"

namespace qrl::learner {

/// Returns the learning rate after `num_updates` applied updates. Warm-up: update k of W (counted from 1) has k/W of
/// the peak; W is lr_warmup_steps, or lr_warmup_ratio of total_updates, rounded. Then the rate is constant, or falls
/// from the peak to 0 at total_updates, linearly or as ½(1 + cos πx).
double learning_rate(const OptimizerOptions& optim, std::int64_t num_updates, std::int64_t total_updates);

}  // namespace qrl::learner
