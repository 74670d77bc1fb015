#include "report/live_runs.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "report/page_data.h"
#include "state/file.h"
#include "state/json.h"

namespace qrl::report {

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

bool is_run(const fs::path& dir) {
  std::error_code none;
  return fs::exists(dir / "metrics.jsonl", none) || fs::exists(dir / "sft_metrics.jsonl", none);
}

double held_out_score(const Metrics& metrics, const Measures& measures) {
  for (const auto& [name, value] : metrics) {
    if (measures.is_held_out_score(name)) return value;
  }
  return kNan;
}

Json rows_json(const Rows& rows, const Measures& measures) {
  Json list = Json::array();
  for (const Row& row : rows.rows) {
    Json one = {{"step", row.step}};
    for (const auto& [metric, value] : row.metrics) {
      if (measures.counts(metric)) state::add_member(one, metric, finite_or_null(value));
    }
    list.push_back(std::move(one));
  }
  return list;
}

Json sample_steps(const fs::path& dir) {
  Json steps = Json::array();
  for (const SampleFile& file : sample_files(dir / "rollouts")) steps.push_back({{"step", file.step}});
  return steps;
}

Json held_out_files(const fs::path& dir) {
  return files_json(spread(sample_files(dir / "validation"), PageLimits{}.max_sample_files), PageLimits{}.max_prompts);
}

}  // namespace

LiveRuns::LiveRuns(std::vector<fs::path> roots) : roots_(std::move(roots)) {
  for (const fs::path& root : roots_) {
    std::error_code none;
    QRL_REQUIRE(fs::is_directory(root, none), state::shown(root), "a run folder, or a folder that contains runs",
                "no such folder");
  }
}

std::map<std::string, fs::path> LiveRuns::find() const {
  std::map<std::string, fs::path> runs;
  const auto add = [&](const fs::path& dir, const fs::path& above) {
    const std::string name = valid_utf8(dir.filename().string());
    runs.try_emplace(runs.count(name) == 0 ? name : valid_utf8(above.string()) + "/" + name, dir);
  };
  for (const fs::path& root : roots_) {
    std::error_code none;
    const fs::path whole = fs::weakly_canonical(root, none);
    if (is_run(whole)) {
      add(whole, whole.parent_path());
      continue;
    }
    for (const auto& entry : fs::directory_iterator(whole, none)) {
      if (entry.is_directory(none) && is_run(entry.path())) add(entry.path(), whole);
    }
  }
  return runs;
}

const LiveRuns::Followed& LiveRuns::follow(const fs::path& dir) {
  Followed& run = followed_[dir];
  const fs::path file = dir / "metrics.jsonl";
  std::error_code none;
  const std::uintmax_t size = fs::file_size(file, none);
  const std::vector<Session> sessions = read_sessions(dir / "sessions.jsonl");
  if (none || size < run.num_bytes || sessions.size() != run.num_starts)
    run = {};  // a resume may have truncated the file
  run.num_starts = sessions.size();
  run.ended = sessions.empty() ? "" : sessions.back().ended;
  const Rows cold_rows = read_rows(dir / "sft_metrics.jsonl", run.num_cold_bytes);
  run.num_cold_bytes += cold_rows.num_bytes;
  if (!cold_rows.rows.empty()) run.cold_update = cold_rows.rows.back().step;
  const Rows rows = read_rows(file, run.num_bytes);
  run.num_bytes += rows.num_bytes;
  for (const Row& row : rows.rows) {
    run.course.add(row);
    run.step = row.step;
    if (!std::isfinite(run.first_unix_s)) run.first_unix_s = value_of(row.metrics, "timing_s/unix");
    for (const auto& [name, value] : row.metrics) {
      if (std::isfinite(value)) run.last[name] = value;
    }
    const double step_s = value_of(row.metrics, "timing_s/step");
    if (std::isfinite(step_s)) run.step_s.push_back(step_s);
  }
  return run;
}

Json LiveRuns::entry(const std::string& name, const fs::path& dir) try {
  const Followed& run = follow(dir);
  std::error_code none;
  std::string yaml;
  if (fs::is_regular_file(dir / "config.yaml", none)) yaml = state::read_text(dir / "config.yaml", 4 << 20);
  return entry_of(name, run, read_recipe_lines(yaml), is_running(dir));
} catch (const std::exception& error) {  // one unreadable folder must not hide other runs
  Followed unread;
  unread.ended = valid_utf8(error.what());
  return entry_of(name, unread, {}, false);
}

Json LiveRuns::entry_of(const std::string& name, const Followed& run, const std::vector<RecipeLine>& recipe,
                        bool running) {
  const std::string epochs = recipe_value(recipe, "trainer.total_epochs");
  const bool by_epochs = !epochs.empty() && epochs != "0";  // with epochs, the number of steps depends on the data
  const std::string total = by_epochs ? "" : recipe_value(recipe, "trainer.total_training_steps");
  const std::int64_t total_steps = std::strtoll(total.c_str(), nullptr, 10);
  const std::size_t count = std::min<std::size_t>(run.step_s.size(), 10);
  double sum_s = 0;
  for (std::size_t i = run.step_s.size() - count; i < run.step_s.size(); ++i) sum_s += run.step_s[i];
  const double left_s = count == 0 || total_steps == 0
                            ? kNan
                            : sum_s / static_cast<double>(count) * static_cast<double>(total_steps - run.step);
  Json bad = Json::array();
  for (const Verdict& verdict : judge(run.course)) {
    if (verdict.bad) bad.push_back(verdict.rule->name);
  }
  return {{"name", name},
          {"running", running},
          {"ended", run.ended},
          {"step", run.step},
          {"total_steps", total_steps},
          {"cold_update", run.cold_update},
          {"cold_updates", std::strtoll(recipe_value(recipe, "sft.steps").c_str(), nullptr, 10)},
          {"seconds", finite_or_null(value_of(run.last, "timing_s/unix") - run.first_unix_s)},
          {"reward", finite_or_null(value_of(run.last, "critic/rewards/mean"))},
          {"held_out", finite_or_null(held_out_score(run.last, run.course.measures()))},
          {"tokens_per_s", finite_or_null(value_of(run.last, "perf/tokens_per_s"))},
          {"left_s", finite_or_null(left_s)},
          {"bad", std::move(bad)},
          {"bytes", run.num_bytes},
          {"cold_bytes", run.num_cold_bytes},
          {"starts", run.num_starts}};
}

Json LiveRuns::list() {
  const std::lock_guard lock(mutex_);
  Json list = Json::array();
  for (const auto& [name, dir] : find()) list.push_back(entry(name, dir));
  return list;
}

template <class Ask>
std::optional<Json> LiveRuns::of_run(const std::string& name, const Ask& ask) const {
  const auto runs = find();
  const auto run = runs.find(name);
  if (run == runs.end()) return std::nullopt;
  try {
    return ask(run->second);
  } catch (const std::exception&) {
    if (is_run(run->second)) throw;
    return std::nullopt;
  }
}

std::optional<Json> LiveRuns::run(const std::string& name) {
  return of_run(name, [&](const fs::path& dir) {
    const RunFiles files = read_run(dir);
    Json json = run_json(files, name, std::numeric_limits<std::size_t>::max());
    json["name"] = name;
    json["bytes"] = files.rows.num_bytes;
    json["cold_bytes"] = files.sft_rows.num_bytes;
    json["samples"] = sample_steps(dir);
    json["validation"] = held_out_files(dir);
    return json;
  });
}

std::optional<Json> LiveRuns::validation(const std::string& name) {
  return of_run(name, [&](const fs::path& dir) { return Json{{"validation", held_out_files(dir)}}; });
}

std::optional<Json> LiveRuns::rows(const std::string& name, std::uint64_t since, std::uint64_t cold_since) {
  return of_run(name, [&](const fs::path& dir) {
    const Rows rows = read_rows(dir / "metrics.jsonl", since);
    const Rows cold_rows = read_rows(dir / "sft_metrics.jsonl", cold_since);
    const auto held_out = sample_files(dir / "validation");
    const std::lock_guard lock(mutex_);
    const Course& course = follow(dir).course;
    return Json{{"rows", rows_json(rows, course.measures())},
                {"bytes", since + rows.num_bytes},
                {"cold_rows", rows_json(cold_rows, {})},
                {"cold_bytes", cold_since + cold_rows.num_bytes},
                {"verdicts", verdicts_json(judge(course))},
                {"sessions", sessions_json(read_sessions(dir / "sessions.jsonl"))},
                {"samples", sample_steps(dir)},
                {"judged", summary(judge(follow(dir).course))},
                {"last_validation", held_out.empty() ? Json() : Json(held_out.back().step)}};
  });
}

std::optional<Json> LiveRuns::samples(const std::string& name, std::int64_t step) {
  return of_run(name, [&](const fs::path& dir) -> std::optional<Json> {
    const auto files = sample_files(dir / "rollouts");
    const auto file = std::ranges::find(files, step, &SampleFile::step);
    if (file == files.end()) return std::nullopt;
    return Json{{"groups", read_groups(file->path, PageLimits{}.max_prompts)}};
  });
}

}  // namespace qrl::report
