// Owns the charts: each panel's metrics, question and unit.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace qrl::report {

struct Panel {
  std::string_view question, title, unit;
  std::vector<std::string_view> metrics;  ///< metric names; "*" matches any characters but a slash
  bool log = false;
  bool of_cold_start = false;  ///< if set, metrics of sft_metrics.jsonl
};

std::span<const Panel> panels();

bool is_shown(std::string_view metric, bool of_cold_start);

}  // namespace qrl::report
