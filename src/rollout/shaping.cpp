#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "rollout/rollout.h"

namespace qrl::rollout {

double overlong_penalty(std::int64_t response_tokens, std::int64_t max_response_length, std::int64_t buffer_len) {
  const std::int64_t free_tokens = max_response_length - buffer_len;
  const double beyond = static_cast<double>(free_tokens - response_tokens) / static_cast<double>(buffer_len);
  return std::clamp(beyond, -1.0, 0.0);
}

void shape_overlong(std::span<Rollout> rollouts, const OverlongBuffer& buffer, std::int64_t max_response_length) {
  if (!buffer.enable) return;
  for (Rollout& rollout : rollouts) {
    rollout.reward +=
        buffer.penalty_factor *
        overlong_penalty(static_cast<std::int64_t>(rollout.completion.tokens.size()), max_response_length, buffer.len);
  }
}

namespace {

template <class Value>
bool is_equal(std::span<const Rollout> group, Value value) {
  const Rollout* first = nullptr;
  for (const Rollout& r : group) {
    if (r.verdict.dropped) continue;
    if (first == nullptr) first = &r;
    else if (value(r) != value(*first)) return false;
  }
  return true;
}

}  // namespace

bool has_equal_scores(std::span<const Rollout> group) {
  return is_equal(group, [](const Rollout& r) { return r.score; });
}

bool has_equal_outcomes(std::span<const Rollout> group) {
  return is_equal(group, [](const Rollout& r) { return r.verdict.outcome == reward::Outcome::correct; });
}

bool has_equal_scores_at(std::span<const Rollout> group, std::span<const std::size_t> places) {
  return is_equal(group, [&](const Rollout& r) -> std::optional<double> {
    for (const std::size_t place : places) {
      if (const double score = r.verdict.scores[place]; !std::isnan(score)) return score;
    }
    return std::nullopt;
  });
}

FlatGroups::FlatGroups(const std::string& metric, const tasks::Verifier& verifier) : outcomes_(metric == "acc") {
  if (outcomes_ || metric == "score") return;
  const std::vector<std::string>& names = verifier.score_names();
  std::string known = "score, acc";
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (names[k] == metric) places_.push_back(k);
    known += ", " + names[k];
  }
  QRL_REQUIRE(!places_.empty(), "algorithm.filter_groups.metric", "one of " + known, base::quoted(metric));
}

bool FlatGroups::is_flat(std::span<const Rollout> group) const {
  if (outcomes_) return has_equal_outcomes(group);
  return places_.empty() ? has_equal_scores(group) : has_equal_scores_at(group, places_);
}

}  // namespace qrl::rollout
