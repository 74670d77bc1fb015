// Owns the reading of a run's metric rows, also while the run is writing them or after it was killed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qrl::report {

/// Maps the metric names of one step to values, sorted by name; null is read as NaN.
using Metrics = std::map<std::string, double>;

/// Marks a missing value.
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Row {
  std::int64_t step = 0;
  Metrics metrics;
};

struct Rows {
  std::vector<Row> rows;             ///< in file order, without rows that have no metric
  std::vector<std::string> changes;  ///< changes by a resume: "step 20: optim.lr 0.001 -> 0.0005"
  std::int64_t num_unreadable = 0;   ///< lines that are no metric row
  std::uint64_t num_bytes = 0;
};

/// Reads the rows of metrics.jsonl or sft_metrics.jsonl after byte `from`; none if the file is missing. An incomplete
/// last line is skipped: it is still being written, or a kill cut it.
Rows read_rows(const std::filesystem::path& file, std::uint64_t from = 0);
/// Reads rows from text that consists of whole lines.
Rows parse_rows(std::string_view text);

/// Returns whether this is the name of a held-out set's score, val/SOURCE/mean@N.
bool is_held_out_score(std::string_view name);

/// Returns the value of a metric; NaN if it is missing.
double value_of(const Metrics& metrics, const std::string& name);

/// Replaces every byte of `text` that is not UTF-8 by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace qrl::report
