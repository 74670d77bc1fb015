// Rules that detect a run that is not learning.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/measures.h"
#include "report/rows.h"

namespace qrl::report {

/// Holds the training steps' metrics that rules read, one column each. A missing value is NaN.
class Course {
 public:
  /// Adds a row; call it in step order. A row without training reward adds only its held-out scores.
  void add(const Row& row);

  std::int64_t num_steps() const { return static_cast<std::int64_t>(steps_.size()); }
  std::int64_t step(std::int64_t index) const { return steps_[static_cast<std::size_t>(index)]; }
  std::span<const double> column(std::string_view metric) const;
  /// Returns each held-out set's scores (Measures::is_held_out_score), in step order.
  const std::map<std::string, std::vector<double>>& held_out() const { return held_out_; }
  const Measures& measures() const { return measures_; }

 private:
  std::vector<std::int64_t> steps_;
  std::map<std::string, std::vector<double>, std::less<>> columns_;
  std::map<std::string, std::vector<double>> held_out_;
  Measures measures_;
};

struct Rule {
  std::string_view name;
  std::string_view metric;
  std::string_view number;  ///< measured quantity, such as "mean of the recent steps"
  bool above;               ///< true: bad above the bound; false: bad below
  double bound;
  std::int64_t min_steps;  ///< steps before the first verdict
  double (*measure)(const Course& course);
  std::string_view advice;
  /// Bound on a single step's metric at which train/metrics/health warns; NaN: no such warning.
  double step_bound = std::numeric_limits<double>::quiet_NaN();
};

std::span<const Rule> rules();
const Rule& rule(std::string_view name);

struct Verdict {
  const Rule* rule;
  double number;  ///< measured number; NaN: too few steps, or no such metric
  bool bad;
  bool needs_steps;  ///< the run has fewer steps than the rule's min_steps
};

/// Returns each rule's verdict, in the order of rules().
std::vector<Verdict> judge(const Course& course);
std::vector<Verdict> judge(const Rows& rows);
/// Returns "most groups are flat: 0.81 > 0.7 (data/flat_group_fraction, mean of the recent steps); take prompts …", for
/// example.
std::string describe(const Verdict& verdict);
/// Returns "1 of 14 rules judged, none broken; 13 need more steps", for example.
std::string summary(std::span<const Verdict> verdicts);

class Watcher {
 public:
  /// Adds a row; returns the verdicts that are bad for the first time.
  std::vector<Verdict> observe(const Row& row);
  const Measures& measures() const { return course_.measures(); }

 private:
  Course course_;
  std::vector<bool> said_;
};

}  // namespace qrl::report
