#include "train/resume.h"

#include <set>

#include "base/log.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

std::string cold_start_name(const config::Recipe& recipe) { return "sft_" + std::to_string(recipe.sft.steps); }

bool lies_in(const fs::path& checkpoint, const RunFolder& folder) {
  return fs::canonical(checkpoint).parent_path() == fs::canonical(folder.checkpoints());
}

/// The newest sound checkpoint of the run folder; what is damaged beyond it is set aside.
std::optional<fs::path> newest_checkpoint(const config::TrainerRecipe& trainer, const RunFolder& folder) {
  auto newest = newest_sound_checkpoint(folder.checkpoints());
  QRL_REQUIRE(trainer.resume_mode == config::ResumeMode::automatic || !newest, folder.path().string(),
              "no checkpoint with --resume never", newest->filename().string(),
              "give another trainer.default_local_dir, or --resume auto");
  set_aside_damaged(folder.checkpoints(), newest);
  return newest;
}

/// The checkpoint of --resume PATH. A run that went on from it beside newer ones would meet their names and mix their
/// metric rows with its own, so the run folder may hold nothing sound that is newer.
fs::path given_checkpoint(const config::TrainerRecipe& trainer, const RunFolder& folder) {
  require_sound_checkpoint(trainer.resume_path, "give another one, or --resume auto");
  fs::path given = fs::canonical(trainer.resume_path);
  const auto newest = newest_sound_checkpoint(folder.checkpoints());
  const std::string found = newest ? newest->filename().string() : "none";
  if (lies_in(given, folder)) {
    QRL_REQUIRE(newest && fs::equivalent(*newest, given), given.string(), "the newest checkpoint of its run folder",
                "a newer one, " + found,
                "--resume auto goes on from that; to branch off here, give another trainer.default_local_dir");
  } else {
    // The cold start that an interrupted first try copied from beside the given one may stay.
    QRL_REQUIRE(!newest || same_checkpoint(*newest, given.parent_path() / newest->filename()), folder.path().string(),
                "a run folder without checkpoints, to go on from one elsewhere", found,
                "--resume auto goes on from that; else give another trainer.default_local_dir");
  }
  set_aside_damaged(folder.checkpoints(), newest);
  return given;
}

void check_same_recipe(const fs::path& checkpoint, const LoadedState& saved, const config::Recipe& recipe) {
  const config::LoadedRecipe before =
      config::parse_recipe(saved.resolved_recipe, (checkpoint / "recipe.yaml").string(), checkpoint, {}, false);
  std::string changed;
  // What these name is compared by its contents (train/inputs.h): a clone or a data folder may have moved.
  const std::set<std::string> read = {"model.path", "model.init.config", "data.train_files", "data.val_files"};
  for (const std::string& key : config::changed_keys(before.recipe, recipe)) {
    if (!read.contains(key)) changed += (changed.empty() ? "" : ", ") + key;
  }
  QRL_REQUIRE(changed.empty(), checkpoint.string(), "the recipe it was made with", "other values of " + changed,
              "set them back, or give another trainer.default_local_dir");
}

/// The cold start is made by one rank whatever their number; RL steps sum over ranks.
void warn_of_other_ranks(const fs::path& checkpoint, const LoadedState& saved, int num_ranks) {
  if (saved.state.cold_start || saved.world_size == num_ranks) return;
  base::log_warning(checkpoint.string() + " was written by a run of " + std::to_string(saved.world_size) +
                    " ranks and goes on with " + std::to_string(num_ranks) +
                    ": sums round differently from here on, so the bits are not those of a run never stopped");
}

void provide_reference(const fs::path& checkpoint, const config::Recipe& recipe, const RunFolder& folder) {
  const fs::path home = folder.checkpoints() / cold_start_name(recipe);
  const fs::path beside = fs::canonical(checkpoint).parent_path() / cold_start_name(recipe);
  if (!fs::exists(home) && fs::exists(beside)) {
    require_sound_checkpoint(beside, "the reference of algorithm.kl_loss_coef is read from it: restore it from a copy");
    copy_checkpoint(beside, home);
    base::log_info("copied " + beside.string() + ", the reference of algorithm.kl_loss_coef, to " + home.string());
    return;
  }
  QRL_REQUIRE(fs::exists(home), beside.string(), "the finished cold start, reference of algorithm.kl_loss_coef", "none",
              "put it beside the checkpoint that is given, where the run that made both has it");
  require_sound_checkpoint(home, "the reference of algorithm.kl_loss_coef is read from it: restore it from a copy");
}

ResumePoint choose(const config::LoadedRecipe& loaded, const Inputs& inputs, const RunFolder& folder, int num_ranks) {
  const config::Recipe& recipe = loaded.recipe;
  state::remove_leftovers(folder.checkpoints());
  ResumePoint point;
  const bool given = recipe.trainer.resume_mode == config::ResumeMode::path;
  point.checkpoint = given ? given_checkpoint(recipe.trainer, folder) : newest_checkpoint(recipe.trainer, folder);
  // Metric rows are kept with the folder they were written in: a run that does not go on there begins its own.
  const bool goes_on_here = point.checkpoint && lies_in(*point.checkpoint, folder);
  if (!point.checkpoint) {
    folder.set_aside_earlier_rows();
    return point;
  }

  const LoadedState saved = read_checkpoint_state(*point.checkpoint);
  check_same_recipe(*point.checkpoint, saved, recipe);
  require_same_inputs(saved.inputs, inputs, point.checkpoint->string(), "what it was made with",
                      "put them back, or give another trainer.default_local_dir");
  warn_of_other_ranks(*point.checkpoint, saved, num_ranks);
  point.state = saved.state;
  point.unfinished_row = saved.unfinished_row;
  const bool cold_start_done =
      recipe.sft.steps > 0 && (saved.state.step > 0 || saved.state.sft_step >= recipe.sft.steps);
  if (recipe.algorithm.kl_loss_coef != 0 && cold_start_done) provide_reference(*point.checkpoint, recipe, folder);
  if (!goes_on_here) {
    folder.set_aside_earlier_rows();  // once nothing refuses the run any more
    point.state.metrics_bytes = point.state.sft_metrics_bytes = 0;
  }
  base::log_info("resuming from " + point.checkpoint->string());
  return point;
}

}  // namespace

fs::path cold_start_checkpoint(const config::Recipe& recipe) {
  return fs::path(recipe.trainer.default_local_dir) / "checkpoints" / cold_start_name(recipe);
}

ResumePoint find_resume_point(const config::LoadedRecipe& loaded, const Inputs& inputs, const RunFolder* folder,
                              dist::Collectives& world) {
  ResumePoint point;
  if (folder != nullptr) point = choose(loaded, inputs, *folder, world.size());
  // Other ranks may have been started in another folder.
  std::string path = point.checkpoint ? point.checkpoint->string() : std::string();
  if (point.checkpoint && world.size() > 1) path = fs::absolute(path).string();
  path = world.all_gather(path).front();
  world.broadcast(std::as_writable_bytes(std::span(&point.state, 1)), 0);
  point.checkpoint = path.empty() ? std::nullopt : std::optional<fs::path>(path);
  return point;
}

}  // namespace qrl::train
