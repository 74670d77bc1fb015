// A run's responses as text for a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "report/run_files.h"

namespace qrl::report {

struct SampleChoice {
  enum class Order : std::uint8_t { spread, best, worst };

  std::size_t count = 0;             ///< responses to show
  std::optional<std::int64_t> step;  ///< unset: the newest step that has responses
  Order order = Order::spread;       ///< `spread`: evenly spaced in the file; otherwise by score
  bool held_out = false;             ///< answers to held-out prompts, not training's
};

/// Returns `choice.count` responses of one step with prompt, answer, score and reason. Responses of equal score come
/// from different prompts first. Throws an input error if the run has no responses at that step.
std::string samples_text(const RunFiles& run, const SampleChoice& choice);

}  // namespace qrl::report
