#include "train/evaluate/known_scores.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "config/reader.h"
#include "report/rows.h"
#include "state/file.h"
#include "state/json.h"
#include "train/evaluate/export_score.h"
#include "train/files/checkpoint_folder.h"
#include "train/plan/catalog.h"
#include "train/plan/formats.h"

namespace qrl::train {

namespace {

constexpr std::string_view kHeldOut = "val/";

std::string scores_of(const report::Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    if (!report::is_held_out_score(name) || !std::isfinite(value)) continue;
    const std::size_t slash = name.rfind('/');
    text += (text.empty() ? "" : ", ") + name.substr(kHeldOut.size(), slash - kHeldOut.size()) + " " +
            name.substr(slash + 1) + base::format(" %.3f", value);
  }
  return text;
}

std::string scores_of_export(const std::filesystem::path& run, std::int64_t step) {
  constexpr std::uint64_t kMaxScore_bytes = 1 << 20;
  const std::filesystem::path file = run / kExportScoreFile;
  if (!std::filesystem::exists(file)) return {};
  const nlohmann::ordered_json json = state::ordered_json_or_null(state::read_text(file, kMaxScore_bytes));
  if (!json.is_object() || json.value("step", std::int64_t{-1}) != step || !json.contains("scores")) return {};
  std::string text;
  for (const auto& [source, score] : json["scores"].items())
    text += (text.empty() ? "" : ", ") + source + base::format(" %.3f", score.get<double>());
  return text.empty() ? text : text + " (" + json.value("compute", std::string()) + ", greedy)";
}

}  // namespace

KnownScores known_scores(const std::filesystem::path& checkpoint) {
  const config::Recipe recipe =
      config::load_recipe(train::keys(), checkpoint / "recipe.yaml", {}, false, config::RecipeUse::record).recipe;
  KnownScores known{policy_text(recipe), {}, {}};
  const std::optional<std::int64_t> step = rl_step_of(checkpoint);
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(checkpoint, error).parent_path();
  if (!step || error || folder.filename() != "checkpoints") return known;
  for (const report::Row& row : report::read_rows(folder.parent_path() / "metrics.jsonl").rows)
    if (row.step == *step) known.scores = scores_of(row.metrics);
  known.of_export = scores_of_export(folder.parent_path(), *step);
  return known;
}

}  // namespace qrl::train
