#include "learner/update/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace qrl::learner {

double learning_rate(const OptimizerOptions& optim, std::int64_t num_updates, std::int64_t total_updates) {
  const std::int64_t warmup = optim.lr_warmup_ratio
                                  ? std::llround(*optim.lr_warmup_ratio * static_cast<double>(total_updates))
                                  : optim.lr_warmup_steps;
  if (num_updates < warmup) return optim.lr * static_cast<double>(num_updates + 1) / static_cast<double>(warmup);
  const double span = static_cast<double>(std::max<std::int64_t>(total_updates - warmup, 1));
  const double x = std::min(static_cast<double>(num_updates - warmup) / span, 1.0);
  switch (optim.lr_scheduler) {
    case config::LrScheduler::constant:
      return optim.lr;
    case config::LrScheduler::linear:
      return optim.lr * (1 - x);
    case config::LrScheduler::cosine:
      break;
  }
  return optim.lr * (1 + std::cos(std::numbers::pi * x)) / 2;
}

}  // namespace qrl::learner
