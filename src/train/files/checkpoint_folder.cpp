#include "train/files/checkpoint_folder.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "state/file.h"
#include "state/folder.h"
#include "state/json.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

constexpr const char* kManifestFile = "manifest.json";

/// Returns a checkpoint's sort key (phase, step), cold start before RL; nothing for other names.
std::optional<std::pair<int, std::int64_t>> age_of(const fs::path& path) {
  const std::string name = path.filename().string();
  for (const auto& [prefix, phase] : {std::pair<std::string, int>{"sft_", 0}, {"step_", 1}}) {
    const std::string digits = name.substr(std::min(prefix.size(), name.size()));
    if (name.starts_with(prefix) && !digits.empty() && digits.size() <= 18 &&
        std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; })) {
      return std::pair{phase, static_cast<std::int64_t>(std::stoll(digits))};
    }
  }
  return std::nullopt;
}

/// Returns the manifest's checkpoint name if the folder has another name (a renamed copy), else nothing.
std::optional<std::string> other_name(const fs::path& path) try {
  const auto facts = state::parse_json(state::folder_facts(path), path.string());
  const auto sft_step = facts.at("sft_step").get<std::int64_t>(), step = facts.at("step").get<std::int64_t>();
  const std::string own = path.filename().string(), name = checkpoint_name(step == 0, sft_step, step);
  return own == name || own == checkpoint_name(false, sft_step, step) ? std::nullopt : std::optional(name);
} catch (const base::Error& error) {
  if (error.kind() != base::ErrorKind::input) throw;
  return std::nullopt;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

/// Returns whether the program would read a file of this name in a checkpoint, if it were there.
bool may_be_read(const fs::path& name) {
  const std::string ending = name.extension().string();
  const bool is_on_top = !name.has_parent_path() && !name.string().starts_with('.');
  return ending == ".jinja" || (is_on_top && (ending == ".json" || ending == ".safetensors"));
}

/// Warns of files that a sound checkpoint's manifest does not list. Throws an input error for a file that would be
/// read.
void note_unlisted_files(const fs::path& checkpoint) {
  const std::vector<std::string> names = state::unlisted_files(checkpoint);
  for (const std::string& name : names) {
    QRL_REQUIRE(!may_be_read(name), (checkpoint / name).string(), "only files that the checkpoint's manifest lists",
                "a file that was added later, and that a resume would read", "move it out of the checkpoint");
  }
  if (names.empty()) return;
  base::log_once(checkpoint.string(),
                 state::shown(checkpoint / names.front()) +
                     (names.size() > 1 ? " and " + std::to_string(names.size() - 1) + " more" : "") +
                     ": not part of the checkpoint; it will be deleted with it");
}

void set_aside(const fs::path& path, const std::string& ending) {
  std::string aside = path.string() + ending;
  for (int number = 2; fs::exists(fs::symlink_status(aside)); ++number)
    aside = path.string() + ending + "_" + std::to_string(number);
  fs::rename(path, aside);
  base::log_warning("set aside " + state::shown(path) + " as " + state::shown(aside));
}

/// Returns whether a folder has a run's resolved recipe, and no model.
bool is_run_without_model(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path / "config.yaml", error) && !fs::exists(path / "config.json", error);
}

}  // namespace

std::string checkpoint_name(bool cold_start, std::int64_t sft_step, std::int64_t step) {
  return cold_start ? "sft_" + std::to_string(sft_step) : "step_" + std::to_string(step);
}

void set_aside_copy(const fs::path& path) {
  if (fs::exists(fs::symlink_status(path)) && other_name(path)) set_aside(path, ".copy");
}

std::vector<fs::path> list_checkpoints(const fs::path& dir) {
  std::vector<fs::path> found;
  if (!fs::is_directory(dir)) return found;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (!age_of(entry.path())) continue;
    const std::optional<std::string> other = other_name(entry.path());
    if (other) {
      base::log_once(entry.path().string(), state::shown(entry.path()) + " is a copy of " + *other +
                                                ", judging by its contents: it is left alone");
    } else {
      found.push_back(entry.path());
    }
  }
  std::ranges::sort(found, [](const fs::path& a, const fs::path& b) { return *age_of(a) > *age_of(b); });
  return found;
}

void name_best(const fs::path& dir, std::int64_t step) {
  const fs::path link = dir / "best", made = dir / ".best.new";
  fs::remove(made);
  fs::create_directory_symlink("step_" + std::to_string(step), made);
  fs::rename(made, link);
}

void prune_checkpoints(const fs::path& dir, std::int64_t keep, std::int64_t final_sft_step,
                       std::int64_t best_step) try {
  const std::vector<fs::path> all = list_checkpoints(dir);
  if (all.empty()) return;
  std::int64_t kept[2] = {0, 0};
  std::vector<fs::path> surplus;
  for (const fs::path& path : all) {
    const auto [phase, step] = *age_of(path);
    if (step == (phase == 0 ? final_sft_step : best_step)) continue;
    if (++kept[phase] > keep) surplus.push_back(path);
  }
  if (surplus.empty()) return;
  if (const auto damage = state::verify_folder(all.front())) {
    base::log_warning(all.front().string() + ": " + *damage + "; older checkpoints are kept");
    return;
  }
  // Removes the manifest first, so that an interrupted removal leaves no valid checkpoint.
  for (const fs::path& path : surplus) {
    fs::remove(path / kManifestFile);
    fs::remove_all(path);
  }
} catch (const base::Error& error) {  // an unreadable checkpoint must not end the run
  base::log_warning(std::string(error.what()) + "; older checkpoints are kept");
} catch (const fs::filesystem_error& error) {  // a file of NFS that another process holds open, or of another user
  base::log_warning(state::shown(error.path1()) + ": to remove the old checkpoint failed: " + error.code().message());
}

std::optional<fs::path> newest_sound_checkpoint(const fs::path& dir) {
  for (const fs::path& path : list_checkpoints(dir)) {
    const auto damage = state::verify_folder(path);
    if (!damage) {
      note_unlisted_files(path);
      return path;
    }
    base::log_warning("damaged checkpoint " + state::shown(path) + ": " + *damage);
  }
  return std::nullopt;
}

fs::path checkpoint_of_run(const fs::path& path) {
  std::error_code error;
  const fs::path checkpoints = path / "checkpoints";
  if (is_checkpoint(path) || (!fs::is_directory(checkpoints, error) && !is_run_without_model(path))) return path;
  const std::optional<fs::path> newest = newest_sound_checkpoint(checkpoints);
  QRL_REQUIRE(newest, path.string(), "a run with a checkpoint", "none that is sound in " + checkpoints.string(),
              "wait for its first one, or start the run again");
  return *newest;
}

void set_aside_damaged(const fs::path& dir, const std::optional<fs::path>& sound) {
  for (const fs::path& path : list_checkpoints(dir)) {
    if (sound && path == *sound) return;
    set_aside(path, ".damaged");
  }
}

std::optional<std::int64_t> rl_step_of(const fs::path& checkpoint) {
  std::error_code error;
  const auto age = age_of(fs::canonical(checkpoint, error));  // also resolves the link `best`
  return age && age->first == 1 ? std::optional(age->second) : std::nullopt;
}

bool is_checkpoint(const fs::path& path) { return fs::exists(path / kStateFile) || fs::exists(path / kManifestFile); }

void require_sound_checkpoint(const fs::path& path, const std::string& what_to_do) {
  QRL_REQUIRE(is_checkpoint(path), path.string(), "a checkpoint folder (with state.json)", "no checkpoint there",
              "checkpoints are in RUN/checkpoints: step_N, and sft_N for a cold start");
  if (const auto damage = state::verify_folder(path)) {
    base::fail_input(path.string(), "a sound checkpoint", *damage, what_to_do);
  }
  note_unlisted_files(path);
}

void copy_checkpoint(const fs::path& from, const fs::path& to) {
  state::commit_folder(
      to,
      [&](const fs::path& tmp) {
        for (const std::string& name : state::listed_files(from)) {
          fs::create_directories((tmp / name).parent_path());
          fs::copy_file(from / name, tmp / name);
        }
      },
      state::folder_facts(from));
  QRL_REQUIRE(same_checkpoint(from, to), to.string(), "an exact copy of " + from.string(), "different contents",
              "remove it and check the disk");
}

bool same_checkpoint(const fs::path& a, const fs::path& b) {
  return fs::exists(a / kManifestFile) && fs::exists(b / kManifestFile) && manifest_text(a) == manifest_text(b);
}

std::string checkpoint_base_hash(const fs::path& checkpoint) {
  const fs::path file = checkpoint / kStateFile;
  const auto json = state::parse_json(state::read_text(file, kMaxCheckpointText_bytes), file.string());
  return json.contains(kBaseEntry) ? json.at(kBaseEntry).at("weights").get<std::string>() : std::string();
}

std::string manifest_text(const fs::path& checkpoint) {
  return state::read_text(checkpoint / kManifestFile, kMaxCheckpointText_bytes);
}

}  // namespace qrl::train
