// Owns the checks of metric rows that warn if a run does not learn.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "report/measures.h"
#include "train/files/run_folder.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

/// Lists the settings that narrow the gap between sampler and learner on the recipe's devices, most reliable first; ""
/// if none would.
std::string gap_advice(const Recipe& recipe);

class Health {
 public:
  explicit Health(const Recipe& recipe) : recipe_(recipe) {}

  /// Checks the row of `step`; call it in step order. Returns one warning per symptom, and repeats it at most every ten
  /// steps. Metrics missing from `row` count as NaN.
  std::vector<std::string> observe(std::int64_t step, const Metrics& row);

  /// Summarizes all steps, as in "all groups flat in 12 of 12 steps; …". Returns "" without symptoms.
  std::string summary() const;

 private:
  enum Symptom : std::uint8_t { fell_to_0, flat, dropped, masked, gap, not_finite, kNumSymptoms };
  struct Course {
    std::int64_t num_steps = 0, first = 0, last_told = 0;
  };
  std::string look(Symptom symptom, const Metrics& row) const;
  std::string look_at_groups(const Metrics& row) const;

  const Recipe& recipe_;
  std::array<Course, kNumSymptoms> courses_;
  std::string look_at_fall(const Metrics& row) const;

  report::Measures measures_;
  std::int64_t num_steps_ = 0;
  std::int64_t num_wrong_steps_ = 0;
  double usual_correct_ = 0;  ///< moving average of the share of correct responses, over steps that have one
  double least_cut_ = 1;      ///< smallest share of truncated responses in a step
};

}  // namespace qrl::train
