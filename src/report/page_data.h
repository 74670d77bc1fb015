// Owns the data of the report's page: runs as JSON, columns as base64 of float32, within the limits of a page. Knows
// nothing of the page's look.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/rules.h"
#include "report/run_files.h"

namespace qrl::report {

/// What a page may hold.
struct PageLimits {
  std::size_t max_rows = 2000;        ///< of a run; of more, minimum and maximum of neighboring steps stand for them
  std::size_t max_sample_files = 40;  ///< of a run
  std::size_t max_prompts = 8;        ///< of a file
  std::size_t max_sample_bytes = 11 << 20;  ///< of all runs together
};

/// float32 values, little endian, as base64.
std::string base64_floats(const std::vector<double>& values);

/// Steps and the columns that a panel shows: {"steps": base64, "columns": {name: base64}}.
nlohmann::ordered_json table_json(const Rows& rows, bool of_cold_start, std::size_t max_rows);

nlohmann::ordered_json verdicts_json(const std::vector<Verdict>& verdicts);
nlohmann::ordered_json sessions_json(const std::vector<Session>& sessions);
nlohmann::ordered_json panels_json();

/// A run without its samples. `label` names it on the page.
nlohmann::ordered_json run_json(const RunFiles& run, const std::string& label, std::size_t max_rows);

/// The whole data of a page. `by_seed`: runs that differ in the seed alone get one group.
nlohmann::ordered_json page_json(const std::vector<RunFiles>& runs, bool by_seed, const PageLimits& limits);

/// JSON as text that may stand in a script element: no "<", no line separator of JavaScript.
std::string script_json(const nlohmann::ordered_json& json);

}  // namespace qrl::report
