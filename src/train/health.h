// Owns the warnings of a run that does not learn: which figures of a step show it, the likely cause, what to try. Knows
// rows of metrics alone, so that a finished run can be looked at again.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "train/run_folder.h"

namespace qrl::train {

class Health {
 public:
  explicit Health(const config::Recipe& recipe) : recipe_(recipe) {}

  /// Checks the row of a step; steps come in order. Returns a warning per symptom, without "warning: ". A lasting
  /// symptom is reported once in ten steps at most. Values that a step does not define are NaN.
  std::vector<std::string> observe(std::int64_t step, const Metrics& row);

  /// Returns one line about all steps so far: "all groups flat in 12 of 12 steps; …"; empty without symptoms.
  std::string summary() const;

 private:
  enum Symptom : std::uint8_t { fell_to_0, flat, dropped, gap, not_finite, kNumSymptoms };
  struct Course {
    std::int64_t num_steps = 0, first = 0, last_told = 0;
  };
  /// Returns the warning of a symptom; empty if the row does not have it.
  std::string look(Symptom symptom, const Metrics& row) const;
  std::string look_at_groups(const Metrics& row) const;
  std::string what_closes_the_gap() const;

  const config::Recipe& recipe_;
  std::array<Course, kNumSymptoms> courses_;
  std::string look_at_fall(const Metrics& row) const;

  std::int64_t num_steps_ = 0;
  std::int64_t num_wrong_steps_ = 0;  ///< steps without a right response, since the last that had one
  double usual_correct_ = 0;          ///< share of right responses, a moving mean over the steps that had one
  double least_cut_ = 1;              ///< smallest share of responses cut so far
};

}  // namespace qrl::train
