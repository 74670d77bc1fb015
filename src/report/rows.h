// Owns the reading of a run's metric rows, also those of a run that is at work or was cut. Knows nothing of their
// meaning.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qrl::report {

/// Metric names and values of one step, in name order; null is NaN.
using Metrics = std::map<std::string, double>;

/// What a row lacks.
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Row {
  std::int64_t step = 0;
  Metrics metrics;
};

struct Rows {
  std::vector<Row> rows;             ///< in file order, without rows that hold no metric
  std::vector<std::string> changes;  ///< "step 20: optim.lr 0.001 -> 0.0005": what a resume changed
  std::int64_t num_unreadable = 0;   ///< lines that are no metric row
  std::uint64_t num_bytes = 0;       ///< of the lines read
};

/// The rows of metrics.jsonl or sft_metrics.jsonl behind byte `from`; none where the file is missing. A last line
/// without its end is left out: it is being written, or a kill cut it.
Rows read_rows(const std::filesystem::path& file, std::uint64_t from = 0);
/// The same of text: whole lines.
Rows parse_rows(std::string_view text);

/// Whether it is the name of a held-out set's score, val/SOURCE/mean@N.
bool is_held_out_score(std::string_view name);

/// The value of a metric, NaN where the row lacks it.
double value_of(const Metrics& metrics, const std::string& name);

/// `text` with every byte that is not UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace qrl::report
