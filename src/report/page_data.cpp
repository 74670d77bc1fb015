#include "report/page_data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "report/panels.h"
#include "report/recipe_lines.h"
#include "state/json.h"

namespace qrl::report {

namespace {

using Json = nlohmann::ordered_json;

struct Table {
  std::vector<double> steps;
  std::map<std::string, std::vector<double>> columns;
};

Table table_of(const Rows& rows) {
  Table table;
  Measures measures;
  for (const Row& row : rows.rows) measures.add(row.metrics);
  for (const Row& row : rows.rows) {
    for (const auto& [name, value] : row.metrics) {
      if (name == kUnixMetric || !measures.counts(name)) continue;
      auto& column = table.columns.try_emplace(name, table.steps.size(), kNan).first->second;
      column.push_back(value);
    }
    table.steps.push_back(static_cast<double>(row.step));
    for (auto& [name, column] : table.columns) column.resize(table.steps.size(), kNan);
  }
  return table;
}

/// Returns the minimum and maximum of values [first, last) in the order in which they occur; NaN if none is finite.
std::pair<double, double> extremes(const std::vector<double>& values, std::size_t first, std::size_t last) {
  std::size_t low = last, high = last;
  for (std::size_t i = first; i < last; ++i) {
    if (!std::isfinite(values[i])) continue;
    if (low == last || values[i] < values[low]) low = i;
    if (high == last || values[i] > values[high]) high = i;
  }
  if (low == last) return {kNan, kNan};
  return low <= high ? std::pair(values[low], values[high]) : std::pair(values[high], values[low]);
}

Table thinned(const Table& table, std::size_t max_rows) {
  const std::size_t count = table.steps.size(), num_buckets = max_rows / 2;
  if (count <= max_rows) return table;
  Table thin;
  for (std::size_t k = 0; k < num_buckets; ++k) {
    const std::size_t first = k * count / num_buckets, last = (k + 1) * count / num_buckets;
    thin.steps.push_back(table.steps[first]);
    thin.steps.push_back(table.steps[last - 1]);
    for (const auto& [name, column] : table.columns) {
      const auto [early, late] = extremes(column, first, last);
      thin.columns[name].push_back(early);
      thin.columns[name].push_back(late);
    }
  }
  return thin;
}

/// Returns the seconds from the first to the last row; without timing_s/unix, the sum of step durations.
double seconds_of(const Rows& rows) {
  if (rows.rows.empty()) return 0;
  const double first = value_of(rows.rows.front().metrics, kUnixMetric),
               last = value_of(rows.rows.back().metrics, kUnixMetric);
  if (std::isfinite(first) && std::isfinite(last)) return last - first;
  double sum = 0;
  for (const Row& row : rows.rows) {
    const double step_s = value_of(row.metrics, "timing_s/step");
    sum += std::isfinite(step_s) ? step_s : 0;
  }
  return sum;
}

/// Labels runs by folder name. If two names are equal, all labels also contain the parent folder's name.
std::vector<std::string> labels_of(const std::vector<RunFiles>& runs) {
  std::vector<std::string> labels;
  std::set<std::string> names;
  bool unique = true;
  for (const RunFiles& run : runs) unique = names.insert(run.name).second && unique;
  for (const RunFiles& run : runs) {
    std::error_code none;
    const std::filesystem::path above = std::filesystem::weakly_canonical(run.dir, none).parent_path().filename();
    labels.push_back(unique ? run.name : valid_utf8(above.string()) + "/" + run.name);
  }
  return labels;
}

std::size_t size_of(const Json& files) {
  std::size_t num_bytes = 0;
  for (const Json& file : files) num_bytes += file.dump().size();
  return num_bytes;
}

/// Adds sample files; halves their number until they fit into `max_bytes`. Returns a sentence that states the number,
/// or "" without samples.
std::string add_samples(Json& json, const RunFiles& run, const PageLimits& limits, std::size_t max_bytes) {
  const std::vector<SampleFile> all = sample_files(run.dir / "rollouts"),
                                held_out = sample_files(run.dir / "validation");
  std::size_t count = limits.max_sample_files;
  for (;; count /= 2) {
    json["validation"] = files_json(spread(held_out, count), limits.max_prompts);
    json["samples"] = files_json(spread(all, count), limits.max_prompts);
    if (size_of(json["validation"]) + size_of(json["samples"]) <= max_bytes || count <= 1) break;
  }
  if (all.empty()) return {};
  return "Samples of " + std::to_string(std::min(count, all.size())) + " of " + std::to_string(all.size()) +
         " steps are shown, at most " + std::to_string(limits.max_prompts) + " prompts each.";
}

}  // namespace

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json files_json(const std::vector<SampleFile>& files, std::size_t max_prompts) {
  Json list = Json::array();
  for (const SampleFile& file : files)
    list.push_back({{"step", file.step}, {"groups", read_groups(file.path, max_prompts)}});
  return list;
}

std::string base64_floats(const std::vector<double>& values) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  for (const double value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>((bits >> shift) & 0xff);
  }
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k) word = word << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[(word >> (18 - 6 * k)) & 63] : '=';
  }
  return text;
}

Json table_json(const Rows& rows, std::size_t max_rows) {
  const Table table = thinned(table_of(rows), max_rows);
  Json columns = Json::object();
  for (const auto& [name, column] : table.columns) state::add_member(columns, name, base64_floats(column));
  return {{"steps", base64_floats(table.steps)}, {"columns", std::move(columns)}};
}

Json verdicts_json(const std::vector<Verdict>& verdicts) {
  Json list = Json::array();
  for (const Verdict& verdict : verdicts) {
    const Rule& rule = *verdict.rule;
    list.push_back({{"name", rule.name},
                    {"metric", rule.metric},
                    {"how", rule.number},
                    {"above", rule.above},
                    {"bound", rule.bound},
                    {"number", finite_or_null(verdict.number)},
                    {"bad", verdict.bad},
                    {"needs_steps", verdict.needs_steps},
                    {"advice", rule.advice}});
  }
  return list;
}

Json sessions_json(const std::vector<Session>& sessions) {
  Json list = Json::array();
  for (const Session& one : sessions) {
    Json& json = list.emplace_back();
    visit_members(one, [&](const char* name, const auto& value) { json[name] = value; });
  }
  return list;
}

Json panels_json() {
  Json list = Json::array();
  for (const Panel& panel : panels()) {
    Json metrics = Json::array();
    for (const std::string_view metric : panel.metrics) metrics.push_back(metric);
    list.push_back({{"question", panel.question},
                    {"title", panel.title},
                    {"unit", panel.unit},
                    {"log", panel.log},
                    {"source", panel.of_cold_start ? "sft" : "steps"},
                    {"metrics", std::move(metrics)}});
  }
  return list;
}

Json run_json(const RunFiles& run, const std::string& label, std::size_t max_rows) {
  Json recipe = Json::array();
  for (const RecipeLine& line : read_recipe_lines(run.recipe_yaml))
    recipe.push_back({line.key, line.value, line.origin});
  Json json = {{"name", run.name},
               {"label", label},
               {"group", 0},
               {"running", is_running(run.dir)},
               {"num_rows", run.rows.rows.size()},
               {"unreadable", run.rows.num_unreadable + run.sft_rows.num_unreadable},
               {"seconds", seconds_of(run.rows)}};
  const std::vector<Verdict> verdicts = judge(run.rows);
  json["verdicts"] = verdicts_json(verdicts);
  json["judged"] = summary(verdicts);
  json["recipe"] = std::move(recipe);
  json["sessions"] = sessions_json(run.sessions);
  json["changes"] = run.rows.changes;
  json["table"] = table_json(run.rows, max_rows);
  json["sft"] = table_json(run.sft_rows, max_rows);
  json["samples"] = Json::array();
  json["validation"] = Json::array();
  return json;
}

Json differences_json(const std::vector<RunFiles>& runs) {
  Json list = Json::array();
  for (const KeyDifference& one : differing_keys(recipes_of(runs))) list.push_back({one.key, one.values});
  return list;
}

Json page_json(const std::vector<RunFiles>& runs, bool by_seed, const PageLimits& limits) {
  const std::vector<std::string> labels = labels_of(runs);
  std::vector<std::string> groups;
  Json list = Json::array();
  std::string left_out;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunFiles& run = runs[i];
    Json json = run_json(run, labels[i], limits.max_rows);
    const std::string key = by_seed ? without_seed(read_recipe_lines(run.recipe_yaml)) : std::to_string(i);
    const auto known = std::ranges::find(groups, key);
    json["group"] = known - groups.begin();
    if (known == groups.end()) groups.push_back(key);
    if (run.rows.rows.size() > limits.max_rows) {
      left_out += labels[i] + ": " + std::to_string(run.rows.rows.size()) +
                  " rows are drawn as the minimum and maximum of neighboring rows. ";
    }
    const std::string samples = add_samples(json, run, limits, limits.max_sample_bytes / runs.size());
    if (!samples.empty()) left_out += (runs.size() > 1 ? labels[i] + ": " : "") + samples + " ";
    list.push_back(std::move(json));
  }
  return {{"live", false},
          {"panels", panels_json()},
          {"differences", differences_json(runs)},
          {"runs", std::move(list)},
          {"left_out", left_out}};
}

std::string script_json(const Json& json) {
  const std::string plain = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string text;
  text.reserve(plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (plain[i] == '<') text += "\\u003c";
    else if (plain.compare(i, 3, "\xE2\x80\xA8") == 0) text += "\\u2028", i += 2;
    else if (plain.compare(i, 3, "\xE2\x80\xA9") == 0) text += "\\u2029", i += 2;
    else text += plain[i];
  }
  return text;
}

}  // namespace qrl::report
