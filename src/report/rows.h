#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qrl::report {

/// One step's metrics, sorted by name. A JSON null becomes NaN.
using Metrics = std::map<std::string, double>;

inline constexpr const char* kUnixMetric = "timing_s/unix";  ///< a row's wall time, in seconds since 1970
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Row {
  std::int64_t step = 0;
  Metrics metrics;
};

struct Rows {
  std::vector<Row> rows;             ///< in file order; rows without metrics are skipped
  std::vector<std::string> changes;  ///< keys changed on resume, such as "step 20: optim.lr 0.001 -> 0.0005"
  std::int64_t num_unreadable = 0;   ///< lines that are no JSON object with a step
  std::uint64_t num_bytes = 0;
};

/// Reads the rows of metrics.jsonl or sft_metrics.jsonl after byte `from`; none if the file is missing. Skips an
/// incomplete last line (being written, or cut by a kill).
Rows read_rows(const std::filesystem::path& file, std::uint64_t from = 0);
Rows parse_rows(std::string_view text);

/// Orders names as text, but numbers without leading zeros by value: pass@2 before pass@16.
struct NameOrder {
  bool operator()(std::string_view a, std::string_view b) const;
};

/// Returns NaN for an absent metric.
double value_of(const Metrics& metrics, const std::string& name);

std::string valid_utf8(std::string_view text);

}  // namespace qrl::report
