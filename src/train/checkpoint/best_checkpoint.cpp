#include "train/checkpoint/best_checkpoint.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace qrl::train {

namespace fs = std::filesystem;

void require_known_score(const config::Recipe& recipe, const std::vector<PromptSet>& held_out) {
  const std::string& wanted = recipe.trainer.keep_best;
  if (wanted.empty()) return;
  const std::string n = std::to_string(recipe.eval.n);
  std::string known;
  bool found = false;
  for (const PromptSet& set : held_out) {
    const std::string prefix = "val/" + set.data_source + "/";
    std::vector<std::string> names = {prefix + "mean@" + n, prefix + "maj@" + n};
    for (std::int64_t k = 2; k < 2 * recipe.eval.n; k *= 2)
      names.push_back(prefix + "pass@" + std::to_string(std::min(k, recipe.eval.n)));
    found = found || std::find(names.begin(), names.end(), wanted) != names.end();
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  }
  QRL_REQUIRE(found, "trainer.keep_best", known.empty() ? "held-out data" : "one of " + known, base::quoted(wanted),
              known.empty() ? "set data.val_files or data.val_generator" : "");
}

bool note_if_best(const config::Recipe& recipe, const learner::Metrics& row, RunState& state) {
  const auto score = row.find(recipe.trainer.keep_best);
  if (recipe.trainer.keep_best.empty() || score == row.end() || std::isnan(score->second)) return false;
  if (state.best_step >= 0 && score->second <= state.best_score) return false;
  state.best_step = state.step;
  state.best_score = score->second;
  return true;
}

void name_best(const fs::path& dir, std::int64_t step) {
  const fs::path link = dir / "best", made = dir / ".best.new";
  fs::remove(made);
  fs::create_directory_symlink("step_" + std::to_string(step), made);
  fs::rename(made, link);
}

}  // namespace qrl::train
