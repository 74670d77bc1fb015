// Owns the rules by which a run's metrics show that it does not learn: one table of numbers and bounds, used by the
// warnings of a running run, by `report` and by its page. Knows nothing of how the metrics come about.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/rows.h"

namespace qrl::report {

/// The columns of a run's training steps that rules read; NaN where a step lacks a value.
class Course {
 public:
  /// Adds a row, the rows in their order. Rows of an evaluation alone add to held-out scores only.
  void add(const Row& row);

  std::int64_t num_steps() const { return static_cast<std::int64_t>(steps_.size()); }
  std::int64_t step(std::int64_t index) const { return steps_[static_cast<std::size_t>(index)]; }
  std::span<const double> column(std::string_view metric) const;
  /// Scores of each held-out set (val/SOURCE/mean@N) in order.
  const std::map<std::string, std::vector<double>>& held_out() const { return held_out_; }

 private:
  std::vector<std::int64_t> steps_;
  std::map<std::string, std::vector<double>, std::less<>> columns_;
  std::map<std::string, std::vector<double>> held_out_;
};

struct Rule {
  std::string_view name;    ///< "most groups are flat"
  std::string_view metric;  ///< that the number is made of
  std::string_view number;  ///< how it is made: "mean of the recent steps"
  bool above;               ///< bad above the bound; else below it
  double bound;
  std::int64_t min_steps;  ///< with fewer the rule says nothing
  /// The number; NaN where it cannot be made.
  double (*measure)(const Course& course);
  std::string_view advice;
  /// The bound of one step's value, beyond which train/health warns at once; NaN: it does not.
  double step_bound = std::numeric_limits<double>::quiet_NaN();
};

/// All rules, in the order of a page.
std::span<const Rule> rules();
/// The rule of that name; it must be there.
const Rule& rule(std::string_view name);

struct Verdict {
  const Rule* rule;
  double number;  ///< NaN: too few steps, or the metric is not there
  bool bad;
};

/// One a rule, in the rules' order.
std::vector<Verdict> judge(const Course& course);
/// The same of a run's rows.
std::vector<Verdict> judge(const Rows& rows);
/// "most groups are flat: 0.81 > 0.7 (data/flat_group_fraction, mean of the recent steps); take prompts …".
std::string describe(const Verdict& verdict);

/// Judges a run while it grows, and says each bad verdict once.
class Watcher {
 public:
  /// Adds a row; the verdicts that are bad and were not returned before.
  std::vector<Verdict> observe(const Row& row);

 private:
  Course course_;
  std::vector<bool> said_;
};

}  // namespace qrl::report
