#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/rules.h"
#include "report/run_files.h"
#include "report/samples.h"

namespace qrl::report {

struct PageLimits {
  std::size_t max_rows = 2000;  ///< rows per run; longer runs keep the minimum and maximum of each group of steps
  std::size_t max_sample_files = 40;
  std::size_t max_prompts = 8;              ///< prompts per sample file
  std::size_t max_sample_bytes = 11 << 20;  ///< over all runs
};

nlohmann::ordered_json finite_or_null(double value);
std::string base64_floats(const std::vector<double>& values);

/// Returns all metrics except timing_s/unix: {"steps": base64 of float32, "columns": {name: base64}}.
nlohmann::ordered_json table_json(const Rows& rows, std::size_t max_rows);

nlohmann::ordered_json verdicts_json(const std::vector<Verdict>& verdicts);
nlohmann::ordered_json sessions_json(const std::vector<Session>& sessions);
nlohmann::ordered_json panels_json();
/// Returns the files' samples: [{step, groups}].
nlohmann::ordered_json files_json(const std::vector<SampleFile>& files, std::size_t max_prompts);

/// Returns a run's data without samples. `label`: the run's name on the page.
nlohmann::ordered_json run_json(const RunFiles& run, const std::string& label, std::size_t max_rows);

/// Returns the keys in which the runs' recipes differ: [[key, [a value per run]]].
nlohmann::ordered_json differences_json(const std::vector<RunFiles>& runs);

/// Returns a page's data. With `by_seed`, runs that differ only in the seed form a group.
nlohmann::ordered_json page_json(const std::vector<RunFiles>& runs, bool by_seed, const PageLimits& limits);

/// Returns JSON that is safe inside a script element: "<" and JavaScript's line separators are escaped.
std::string script_json(const nlohmann::ordered_json& json);

}  // namespace qrl::report
