#include <algorithm>

#include "rollout/rollout.h"

namespace qrl::rollout {

double overlong_penalty(std::int64_t response_tokens, std::int64_t max_response_length, std::int64_t buffer_len) {
  const std::int64_t free_tokens = max_response_length - buffer_len;
  const double beyond = static_cast<double>(free_tokens - response_tokens) / static_cast<double>(buffer_len);
  return std::clamp(beyond, -1.0, 0.0);
}

void shape_overlong(std::span<Rollout> rollouts, const config::OverlongBufferRecipe& buffer,
                    std::int64_t max_response_length) {
  if (!buffer.enable) return;
  for (Rollout& rollout : rollouts) {
    rollout.reward +=
        buffer.penalty_factor *
        overlong_penalty(static_cast<std::int64_t>(rollout.completion.tokens.size()), max_response_length, buffer.len);
  }
}

bool has_equal_scores(std::span<const Rollout> group) {
  return std::all_of(group.begin(), group.end(), [&](const Rollout& r) { return r.score == group.front().score; });
}

bool has_equal_outcomes(std::span<const Rollout> group) {
  const auto is_correct = [](const Rollout& r) { return r.verdict.outcome == reward::Outcome::correct; };
  return std::all_of(group.begin(), group.end(),
                     [&](const Rollout& r) { return is_correct(r) == is_correct(group.front()); });
}

}  // namespace qrl::rollout
