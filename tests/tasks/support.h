// Owns the helpers of the tasks tests: options of a verifier, and one verdict at a time.
#pragma once

#include <string_view>
#include <utility>

#include "support/catch.h"
#include "tasks/task.h"
#include "tasks/verifier.h"

namespace qrl::test {

/// Returns options with that verifier: a right answer scores 1.
inline tasks::VerifierOptions options_with(const std::string& verifier) {
  tasks::VerifierOptions options;
  options.known = tasks::verifiers();
  options.word = verifier;
  options.weights.correct = 1;
  return options;
}

/// Returns the verdict on one response, judged as a batch of one.
inline tasks::Verdict judged(const tasks::Verifier& verifier, std::string_view response,
                             std::string_view ground_truth) {
  const auto gold = verifier.prepare({ground_truth});
  const tasks::Sample sample{response, gold.get()};
  return std::move(verifier.judge(std::span(&sample, 1)).front());
}

}  // namespace qrl::test
