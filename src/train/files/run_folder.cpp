#include "train/files/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "state/file.h"
#include "state/json.h"
#include "state/sealed.h"

namespace qrl::train {

namespace {

void require_made(const std::filesystem::path& dir, const std::error_code& error) {
  QRL_REQUIRE(!error, dir.string(), "a folder that can be created", error.message(), "set trainer.default_local_dir");
}

std::filesystem::path made(const std::filesystem::path& dir) {
  state::require_place_for_output(dir);
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  require_made(dir, error);
  return dir;
}

std::filesystem::path write_step(const std::filesystem::path& dir, std::int64_t step, const std::string& jsonl) {
  const std::filesystem::path file = dir / ("step_" + std::to_string(step) + ".jsonl");
  state::require_no_special_file(file);
  state::File::create_or_empty(file).write(jsonl);
  return file;
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& file, std::int64_t keep_bytes) : file_(file) {
  state::File out = state::File::append(file_, true);
  out.sync();
  const auto size = static_cast<std::int64_t>(out.size_bytes());
  QRL_REQUIRE(size >= keep_bytes, file_.string(),
              "at least the " + std::to_string(keep_bytes) + " bytes that the checkpoint recorded",
              std::to_string(size), "the file was cut or replaced; resume into another folder");
  out.truncate(static_cast<std::uint64_t>(keep_bytes));
}

void MetricsFile::append(std::int64_t step, const Metrics& metrics) {
  if (file_.empty()) return;
  nlohmann::ordered_json row;
  row["step"] = step;
  for (const auto& [name, value] : metrics) {
    if (std::isfinite(value)) row[name] = value;
    else row[name] = nullptr;
  }
  state::File::append(file_).write(row.dump() + "\n");
  events_.append(step, metrics);
}

void MetricsFile::mirror_to(const std::filesystem::path& dir, const std::filesystem::path& run_dir) {
  if (!file_.empty()) events_ = report::EventsFile(dir, report::read_rows(file_), run_dir);
}

void MetricsFile::append_changes(std::int64_t step, const std::vector<config::KeyChange>& changes) {
  if (file_.empty() || changes.empty()) return;
  nlohmann::ordered_json row = {{"step", step}};
  for (const config::KeyChange& change : changes) row["changed_on_resume"][change.key] = {change.before, change.after};
  state::File::append(file_).write(row.dump() + "\n");
}

std::int64_t MetricsFile::sync() {
  if (file_.empty()) return 0;
  state::File file = state::File::append(file_);
  file.sync();
  return static_cast<std::int64_t>(file.size_bytes());
}

std::vector<std::pair<std::int64_t, double>> read_score(const std::filesystem::path& file, const std::string& name) {
  std::vector<std::pair<std::int64_t, double>> values;
  state::require_no_special_file(file);
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json row = state::json_or_null(line);
    if (!row.is_object() || !row.contains("step")) continue;
    const auto changes = row.value("changed_on_resume", nlohmann::json::object());
    for (const auto& [key, change] : changes.items()) {
      if ((key.starts_with("eval.") && key != "eval.dump") || key == "data.val_files") values.clear();
    }
    if (row.contains(name) && row[name].is_number()) values.emplace_back(row["step"], row[name]);
  }
  return values;
}

std::filesystem::path existing_part(const std::filesystem::path& dir) {
  std::filesystem::path part = std::filesystem::absolute(dir);
  std::error_code error;
  while (!std::filesystem::exists(part, error) && part.has_relative_path()) part = part.parent_path();
  return part;
}

void check_run_folder(const std::filesystem::path& dir) {
  state::require_place_for_output(dir);
  std::error_code error;
  const std::filesystem::path there = existing_part(dir);
  if (!std::filesystem::is_directory(there, error)) error = std::make_error_code(std::errc::not_a_directory);
  else if (access(there.c_str(), W_OK | X_OK) != 0) error = {errno, std::generic_category()};
  require_made(dir, error);
  state::require_unlocked(dir);
}

RunFolder::RunFolder(const std::filesystem::path& dir) : path_(made(dir)), lock_(path_) {
  made(checkpoints());
  made(path_ / "rollouts");
}

void RunFolder::set_aside_earlier_rows() const {
  const auto has_rows = [](const std::filesystem::path& file) {
    std::error_code none;
    const auto size = std::filesystem::file_size(file, none);
    return !none && size > 0;
  };
  if (!has_rows(metrics_file()) && !has_rows(sft_metrics_file())) return;
  int number = 1;
  const auto place = [&] { return path_ / ("earlier_" + std::to_string(number)); };
  while (std::filesystem::exists(place())) ++number;
  made(place());
  // Moves metric rows last: after a crash, the next start finds them and moves the rest.
  for (const char* name : {"rollouts", "validation", "tensorboard", "sessions.jsonl", "config.yaml", "quant_audit.txt",
                           "wandb_run.json", "sft_metrics.jsonl", "metrics.jsonl"}) {
    if (std::filesystem::exists(path_ / name)) std::filesystem::rename(path_ / name, place() / name);
  }
  made(path_ / "rollouts");
  base::log_warning("no checkpoint to resume from in " + path_.string() +
                    ": metric rows and rollouts of the earlier run there are now in " + place().string());
}

void RunFolder::write_rollouts(std::int64_t step, const std::string& jsonl) const {
  unsynced_.push_back(write_step(path_ / "rollouts", step, jsonl));
}

void RunFolder::write_validation(std::int64_t step, const std::string& jsonl) const {
  std::error_code error;
  std::filesystem::create_directory(path_ / "validation", error);  // the run folder may have moved since it was locked
  unsynced_.push_back(write_step(path_ / "validation", step, jsonl));
}

void RunFolder::sync_steps() const {
  std::set<std::filesystem::path> dirs;
  for (const std::filesystem::path& file : unsynced_) {
    if (auto open = state::File::open_if_there(file)) open->sync();
    dirs.insert(file.parent_path());
  }
  for (const std::filesystem::path& dir : dirs) state::sync_dir(dir);
  if (!dirs.empty()) state::sync_dir(path_);
  unsynced_.clear();
}

}  // namespace qrl::train
