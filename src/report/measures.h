#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "report/rows.h"

namespace qrl::report {

/// Decides whether a run's figures are shares of correct responses, or mean scores. A verifier that says which
/// responses are correct gives shares. A program that only gives scores is measured by them. A held-out set's first
/// row decides for the set, and the first training row for the training prompts.
class Measures {
 public:
  /// Adds a row; call it in step order.
  void add(const Metrics& row);

  bool held_out_by_score(std::string_view source) const;
  bool training_by_score() const { return training_by_score_.value_or(false); }
  /// Returns whether the metric is a held-out set's figure: val/SOURCE/mean@N, or val/SOURCE/score/mean@N by score.
  bool is_held_out_score(std::string_view name) const;
  /// Returns false for metrics that mislead: shares of a set measured by score, and scores of a set measured by shares.
  bool counts(std::string_view name) const;

 private:
  std::optional<bool> training_by_score_;
  std::map<std::string, bool, std::less<>> held_out_by_score_;
};

/// Reads a run's metrics.jsonl; a missing file has no rows.
Measures read_measures(const std::filesystem::path& file);

/// Splits "val/SOURCE/mean@N" or "val/SOURCE/score/mean@N" into SOURCE and the rest; returns nothing for other names.
std::optional<std::pair<std::string_view, std::string_view>> split_held_out_score(std::string_view name);

}  // namespace qrl::report
