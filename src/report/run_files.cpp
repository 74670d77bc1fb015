#include "report/run_files.h"

#include <sys/stat.h>

#include <fstream>

#include "base/error.h"
#include "report/tfevents.h"
#include "state/file.h"

namespace qrl::report {

namespace fs = std::filesystem;

RunFiles read_run(const fs::path& dir) {
  constexpr std::uint64_t kMaxRecipeBytes = 4 << 20;
  std::error_code none;
  QRL_REQUIRE(fs::is_directory(dir, none), state::shown(dir), "a run folder",
              fs::exists(dir, none) ? "a file" : "no such folder");
  const bool has_rows = fs::exists(dir / "metrics.jsonl", none) || fs::exists(dir / "sft_metrics.jsonl", none);
  const bool has_recipe = fs::is_regular_file(dir / "config.yaml", none);
  QRL_REQUIRE(has_rows || (has_recipe && fs::exists(dir / "checkpoints", none)), state::shown(dir),
              "a run folder with metrics.jsonl", "a folder without metrics.jsonl",
              "give the folder that the run wrote (trainer.default_local_dir)");
  RunFiles run;
  run.dir = dir;
  const fs::path whole = fs::weakly_canonical(dir, none);
  run.name = valid_utf8((none ? dir : whole).filename().string());
  if (has_recipe) run.recipe_yaml = valid_utf8(state::read_text(dir / "config.yaml", kMaxRecipeBytes));
  run.rows = read_rows(dir / "metrics.jsonl");
  run.sft_rows = read_rows(dir / "sft_metrics.jsonl");
  run.sessions = read_sessions(dir / "sessions.jsonl");
  return run;
}

std::vector<std::string> recipes_of(const std::vector<RunFiles>& runs) {
  std::vector<std::string> yamls;
  yamls.reserve(runs.size());
  for (const RunFiles& run : runs) yamls.push_back(run.recipe_yaml);
  return yamls;
}

bool is_running(const fs::path& dir) {
  struct stat lock {};
  if (stat((dir / ".lock").c_str(), &lock) != 0) return false;
  const std::string name = ":" + std::to_string(lock.st_ino) +
                           " ";  // omits the device number, which some file systems report differently in /proc/locks
  std::ifstream in("/proc/locks");
  for (std::string line; std::getline(in, line);) {
    if (line.find("FLOCK") != std::string::npos && line.find(name) != std::string::npos) return true;
  }
  return false;
}

void write_tensorboard(const RunFiles& run, const fs::path& out) {
  EventsFile(out, run.rows, run.dir);
  if (!run.sft_rows.rows.empty()) EventsFile(out / "sft", run.sft_rows);
}

}  // namespace qrl::report
