#include "train/checkpoint/resume.h"

#include <set>

#include "base/hub.h"
#include "base/log.h"
#include "base/text.h"
#include "config/printer.h"
#include "model/peft.h"
#include "state/file.h"
#include "train/policy/adapters.h"
#include "train/recipe/catalog.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

std::string cold_start_name(const Recipe& recipe) { return "sft_" + std::to_string(recipe.sft.steps); }

fs::path checkpoints_of(const fs::path& run) { return run / "checkpoints"; }

bool lies_in(const fs::path& checkpoint, const fs::path& run) {
  return fs::canonical(checkpoint).parent_path() == fs::weakly_canonical(checkpoints_of(run));
}

/// Returns the checkpoint of --resume PATH. Throws an input error if it is damaged. In the run folder, it must be the
/// newest checkpoint. If it is elsewhere, the run folder must have no checkpoint of its own.
fs::path given_checkpoint(const TrainerRecipe& trainer, const fs::path& run, const std::optional<fs::path>& newest) {
  QRL_REQUIRE(is_checkpoint(trainer.resume_from.path), "trainer.resume_mode (--resume)",
              "auto, never, or a checkpoint's folder (with state.json)", trainer.resume_from.path,
              "checkpoints are in RUN/checkpoints: step_N, and sft_N for a cold start");
  require_sound_checkpoint(trainer.resume_from.path, "use another checkpoint, or --resume auto");
  fs::path given = fs::canonical(trainer.resume_from.path);
  const std::string found = newest ? newest->filename().string() : "step_N or sft_N";
  if (lies_in(given, run)) {
    QRL_REQUIRE(
        newest && fs::equivalent(*newest, given), given.string(), "the newest checkpoint of its run folder",
        "a checkpoint other than " + found,
        "use --resume auto to resume from the newest; to branch off here, set another trainer.default_local_dir");
  } else {
    // An interrupted first attempt may have left its copy of the cold start.
    QRL_REQUIRE(!newest || same_checkpoint(*newest, given.parent_path() / newest->filename()), run.string(),
                "a run folder without checkpoints, to resume from another folder's checkpoint", found,
                "use --resume auto to resume from it, or set another trainer.default_local_dir");
  }
  return given;
}

std::optional<fs::path> chosen_checkpoint(const TrainerRecipe& trainer, const fs::path& run,
                                          const std::optional<fs::path>& newest) {
  if (trainer.resume_from.mode == ResumeMode::path) return given_checkpoint(trainer, run, newest);
  QRL_REQUIRE(trainer.resume_from.mode == ResumeMode::automatic || !newest, run.string(),
              "no checkpoint with --resume never", newest->filename().string(),
              "set another trainer.default_local_dir, or use --resume auto");
  return newest;
}

Recipe recipe_of(const Keys& keys, const fs::path& checkpoint, const LoadedState& saved) {
  const std::string name = (checkpoint / "recipe.yaml").string();
  return parse_recipe(keys, saved.resolved_recipe, name, checkpoint, {}, false, RecipeUse::record).recipe;
}

/// Returns why a run cannot resume from `dir`, which has no intact checkpoint.
std::string why_no_checkpoint(const fs::path& dir) {
  std::vector<std::string> damaged;
  for (const fs::path& path : list_checkpoints(dir)) damaged.push_back(path.filename().string());
  if (damaged.empty()) return dir.string() + " has no checkpoint";
  const std::string of = " in " + dir.string() + " (" + base::joined(damaged, ", ") + ")";
  return damaged.size() == 1 ? "the only checkpoint" + of + " is damaged and will be set aside"
                             : "all checkpoints" + of + " are damaged and will be set aside";
}

std::string text_of(const std::vector<config::KeyChange>& changes) {
  std::string text;
  for (const config::KeyChange& change : changes)
    text += (text.empty() ? "" : ", ") + change.key + " " + change.after + " (it was made with " + change.before + ")";
  return text;
}

/// Describes changed file contents as a change of `key`, with values such as "[a.jsonl], contents 1b2c3d4e".
config::KeyChange content_change(const std::string& key, const Recipe& before, const Recipe& after,
                                 const std::string& hash_before, const std::string& hash_after, bool may_be_allowed) {
  const auto shown = [&](const Recipe& recipe, const std::string& hash) {
    return printed_value(recipe, key) + ", contents " + hash.substr(0, 8);
  };
  return {key, shown(before, hash_before), shown(after, hash_after), may_be_allowed};
}

/// Removes the change of sft.steps if sft.epochs determines it; the caller compares the rows instead.
void drop_derived_steps(const Recipe& recipe, std::vector<config::KeyChange>& changes) {
  std::erase_if(changes, [&](const auto& change) { return recipe.sft.epochs > 0 && change.key == "sft.steps"; });
}

void add_other_rows(const LoadedState& saved, const Recipe& before, const Recipe& recipe, const Inputs& inputs,
                    std::vector<config::KeyChange>& changes) {
  if (saved.inputs.sft_rows == inputs.sft_rows) return;
  changes.push_back(content_change("sft.train_files", before, recipe, saved.inputs.sft_rows, inputs.sft_rows, false));
}

/// Returns the changes that need --allow-change or are always refused.
std::vector<config::KeyChange> changes_since(const LoadedState& saved, const Recipe& before, const Recipe& recipe,
                                             const Inputs& inputs) {
  // The files that these keys name are compared by contents.
  const std::set<std::string> read = {"model.path", "model.init.config", "data.train_files", "sft.from",
                                      "sft.train_files"};
  std::vector<config::KeyChange> changes = config::changes_on_resume(*before.keys, before, recipe);
  std::erase_if(changes, [&](const config::KeyChange& change) { return read.contains(change.key); });
  drop_derived_steps(recipe, changes);
  if (saved.state.step == 0) add_other_rows(saved, before, recipe, inputs, changes);
  if (saved.inputs.train_prompts != inputs.train_prompts) {
    changes.push_back(
        content_change("data.train_files", before, recipe, saved.inputs.train_prompts, inputs.train_prompts, true));
  }
  return changes;
}

/// Returns changes that are always allowed but make scores incomparable, and warns of them.
std::vector<config::KeyChange> changes_of_scores(const LoadedState& saved, const Recipe& before, const Recipe& recipe,
                                                 const Inputs& inputs) {
  static constexpr std::string_view kKeys[] = {"eval.n", "eval.temperature", "eval.top_p", "eval.top_k"};
  if (saved.state.step == 0) return {};
  std::vector<config::KeyChange> changes = config::changes_among(*before.keys, kKeys, before, recipe);
  if (saved.inputs.held_out_prompts != inputs.held_out_prompts) {
    changes.push_back(
        content_change("data.val_files", before, recipe, saved.inputs.held_out_prompts, inputs.held_out_prompts, true));
  }
  if (!changes.empty()) {
    base::log_warning(text_of(changes) + ": scores after step " + std::to_string(saved.state.step) +
                      " cannot be compared with earlier ones");
  }
  return changes;
}

void check_changes(const fs::path& checkpoint, const std::vector<config::KeyChange>& changes, bool allow_change) {
  std::vector<config::KeyChange> refused;
  std::string fixed;
  bool any_allowed = false;
  for (const config::KeyChange& change : changes) {
    if (change.may_be_allowed) any_allowed = true;
    else fixed += (fixed.empty() ? "" : ", ") + change.key;
    if (!change.may_be_allowed || !allow_change) refused.push_back(change);
  }
  std::string advice;
  if (!fixed.empty()) {
    advice = "set " + fixed + " back (fixed for a run), or start a new run from its weights: --set " +
             base::shell_word("model.path=" + checkpoint.string()) +
             " --set model.init.config=null --set sft.steps=0 and another trainer.default_local_dir (moments, step "
             "number and warm-up start over)";
  }
  if (any_allowed && !allow_change) {
    advice += (advice.empty() ? "" : "; ") + std::string("--allow-change continues with the new values") +
              (fixed.empty() ? "" : " of the other keys");
  }
  QRL_REQUIRE(refused.empty(), checkpoint.string(), "the recipe and data it was made with", text_of(refused), advice);
}

constexpr std::string_view kColdStartKeys[] = {"model.dtype",
                                               "model.init.seed",
                                               "sft.steps",
                                               "sft.batch_size",
                                               "sft.lr",
                                               "sft.betas",
                                               "sft.weight_decay",
                                               "sft.lr_warmup_steps",
                                               "sft.lr_scheduler",
                                               "sft.grad_clip",
                                               "sft.demonstrations.",
                                               "sft.epochs",
                                               "sft.max_length",
                                               "sft.overlong",
                                               "sft.shuffle",
                                               "sft.loss_on",
                                               "data.prompt_template",
                                               "data.chat_template",
                                               "data.system_prompt",
                                               "data.enable_thinking",
                                               "data.parse_special_tokens"};

void check_same_cold_start(const fs::path& checkpoint, const LoadedState& saved, const Recipe& recipe,
                           const Inputs& inputs) {
  const RunState& state = saved.state;
  QRL_REQUIRE(state.cold_start && state.step == 0, checkpoint.string(), "a finished cold start for sft.from",
              "a checkpoint of step " + std::to_string(state.step),
              "name a RUN/checkpoints/sft_N; model.path starts from the weights of any checkpoint");
  const bool by_adapters = cold_start_trains_adapters(recipe);
  QRL_REQUIRE(model::is_peft(checkpoint) == by_adapters, checkpoint.string(),
              by_adapters ? "a cold start that trained adapters" : "a cold start that trained all weights",
              "a cold start that trained " + std::string(by_adapters ? "all weights" : "adapters"),
              "set lora.sft to what it was made with, or delete sft.from");
  const Recipe before = recipe_of(*recipe.keys, checkpoint, saved);
  std::vector<config::KeyChange> changes = config::changes_among(*before.keys, kColdStartKeys, before, recipe);
  drop_derived_steps(recipe, changes);
  add_other_rows(saved, before, recipe, inputs, changes);
  if (by_adapters) {
    static constexpr std::string_view kAdapters[] = {"lora."};
    const auto of_adapters = config::changes_among(*before.keys, kAdapters, before, recipe);
    changes.insert(changes.end(), of_adapters.begin(), of_adapters.end());
  }
  QRL_REQUIRE(changes.empty(), checkpoint.string(), "the cold start that this recipe would make", text_of(changes),
              "set them to what the cold start was made with, or delete sft.from");
  QRL_REQUIRE(saved.inputs.model == inputs.model, checkpoint.string(), "a cold start of this recipe's model",
              "a cold start of another model", "set model.init.config or model.path to that model, or delete sft.from");
  QRL_REQUIRE(state.sft_step == recipe.sft.steps, checkpoint.string(),
              "a cold start of sft.steps = " + std::to_string(recipe.sft.steps) + " updates",
              "a cold start saved after update " + std::to_string(state.sft_step),
              "name the last checkpoint of that run");
}

fs::path take_cold_start(const Recipe& recipe, const Inputs& inputs, const RunFolder& folder) {
  require_sound_checkpoint(recipe.sft.from, "name another cold start, or delete sft.from");
  const fs::path given = fs::canonical(recipe.sft.from);
  check_same_cold_start(given, read_checkpoint_state(given), recipe, inputs);
  fs::path home = folder.checkpoints() / cold_start_name(recipe);
  copy_checkpoint(given, home);
  base::log_info("using the cold start " + state::shown(given) + " (sft.from)");
  return home;
}

void warn_of_other_ranks(const fs::path& checkpoint, const LoadedState& saved, int num_ranks) {
  if (saved.state.cold_start || saved.world_size == num_ranks) return;
  base::log_warning(checkpoint.string() + " was written by a run of " + std::to_string(saved.world_size) +
                    " ranks and continues with " + std::to_string(num_ranks) +
                    ": sums round differently from here on, so results are not bit-identical to an uninterrupted run");
}

void provide_cold_start(const fs::path& checkpoint, const Recipe& recipe, const RunFolder& folder) {
  const bool is_base = trains_adapters(recipe) && !cold_start_trains_adapters(recipe);
  const std::string what = is_base ? "base of the adapters" : "reference of algorithm.kl_loss_coef";
  const std::string restore = "the " + what + " is read from it: restore it from a copy";
  const fs::path home = folder.checkpoints() / cold_start_name(recipe);
  const fs::path beside = fs::canonical(checkpoint).parent_path() / cold_start_name(recipe);
  if (!fs::exists(home) && fs::exists(beside)) {
    require_sound_checkpoint(beside, restore);
    copy_checkpoint(beside, home);
    base::log_info("copied " + state::shown(beside) + ", the " + what + ", to " + state::shown(home));
    return;
  }
  QRL_REQUIRE(fs::exists(home), beside.string(), "the finished cold start, " + what, "no such folder",
              "put it next to the given checkpoint, as in the run that made both");
  require_sound_checkpoint(home, restore);
}

std::vector<config::KeyChange> check_fit(const fs::path& checkpoint, const LoadedState& saved, const Recipe& recipe,
                                         const Inputs& inputs, bool allow_change) {
  // A cold-start checkpoint copied from another run holds that run's recipe.
  if (!recipe.sft.from.empty() && saved.state.cold_start && saved.state.sft_step == recipe.sft.steps) {
    check_same_cold_start(checkpoint, saved, recipe, inputs);
    return {};
  }
  const Recipe before = recipe_of(*recipe.keys, checkpoint, saved);
  std::vector<config::KeyChange> changes = changes_since(saved, before, recipe, inputs);
  check_changes(checkpoint, changes, allow_change);
  if (!inputs.weights.empty() && model::is_peft(checkpoint))
    require_same_base(checkpoint, base::model_folder(recipe.model.path), inputs.weights);
  QRL_REQUIRE(saved.inputs.model == inputs.model, checkpoint.string(), "the model it was made with",
              "a different model (model.path, model.init)",
              "restore that model, or set another trainer.default_local_dir");
  const auto of_scores = changes_of_scores(saved, before, recipe, inputs);
  changes.insert(changes.end(), of_scores.begin(), of_scores.end());
  return changes;
}

void warn_of_other_ticks(const Recipe& before, const Recipe& recipe) {
  const std::int64_t was = before.rollout.max_num_seqs, is = recipe.rollout.max_num_seqs;
  if (was == is || !samples_on_gpu(recipe) || recipe.rollout.bitwise) return;
  base::log_warning("rollout.max_num_seqs " + std::to_string(is) + " (the checkpoint was made with " +
                    std::to_string(was) +
                    "): on a GPU samples depend on the rows per tick, so results are not bit-identical to an "
                    "uninterrupted run; with rollout.bitwise they would be");
}

ResumePoint choose(const Recipe& recipe, const Inputs& inputs, const RunFolder& folder, bool allow_change,
                   int num_ranks) {
  state::remove_leftovers(folder.checkpoints());
  ResumePoint point;
  const auto newest = newest_sound_checkpoint(folder.checkpoints());
  point.checkpoint = chosen_checkpoint(recipe.trainer, folder.path(), newest);
  set_aside_damaged(folder.checkpoints(), newest);
  // A run resumed in another folder begins new metric files.
  const bool goes_on_here = point.checkpoint && lies_in(*point.checkpoint, folder.path());
  if (!point.checkpoint) {
    if (recipe.sft.from.empty()) {
      folder.set_aside_earlier_rows();
      return point;
    }
    point.checkpoint = take_cold_start(recipe, inputs, folder);
  }

  const LoadedState saved = read_checkpoint_state(*point.checkpoint);
  const Recipe before = recipe_of(*recipe.keys, *point.checkpoint, saved);
  const bool is_shared_cold_start = !recipe.sft.from.empty() && saved.state.cold_start;
  if (!is_shared_cold_start) warn_of_other_ticks(before, recipe);
  point.changes = check_fit(*point.checkpoint, saved, recipe, inputs, allow_change);
  warn_of_other_ranks(*point.checkpoint, saved, num_ranks);
  point.state = saved.state;
  if (!goes_on_here || before.trainer.keep_best != recipe.trainer.keep_best) point.state.best_step = -1;
  point.unfinished_row = saved.unfinished_row;
  const bool cold_start_done =
      recipe.sft.steps > 0 && (saved.state.step > 0 || saved.state.sft_step >= recipe.sft.steps);
  const bool is_read =
      recipe.algorithm.kl_loss_coef != 0 || (trains_adapters(recipe) && !cold_start_trains_adapters(recipe));
  if (is_read && cold_start_done) provide_cold_start(*point.checkpoint, recipe, folder);
  if (!goes_on_here || is_shared_cold_start) {
    if (!goes_on_here) folder.set_aside_earlier_rows();  // last, because the checks above may refuse the run
    point.state.metrics_bytes = point.state.sft_metrics_bytes = 0;
  }
  base::log_info("resuming from " + state::shown(*point.checkpoint));
  return point;
}

}  // namespace

fs::path cold_start_checkpoint(const Recipe& recipe) {
  return fs::path(recipe.trainer.default_local_dir) / "checkpoints" / cold_start_name(recipe);
}

std::string describe_resume(const Recipe& recipe, const std::function<Inputs()>& inputs, bool allow_change) {
  const fs::path run = recipe.trainer.default_local_dir;
  const auto chosen = chosen_checkpoint(recipe.trainer, run, newest_sound_checkpoint(checkpoints_of(run)));
  if (!chosen && recipe.sft.from.empty()) return "a new run: " + why_no_checkpoint(checkpoints_of(run));
  if (!chosen) {
    require_sound_checkpoint(recipe.sft.from, "name another cold start, or delete sft.from");
    check_same_cold_start(recipe.sft.from, read_checkpoint_state(recipe.sft.from), recipe, inputs());
    return "a new run, after the cold start " + recipe.sft.from;
  }
  const LoadedState saved = read_checkpoint_state(*chosen);
  const std::vector<config::KeyChange> changes = check_fit(*chosen, saved, recipe, inputs(), allow_change);
  const std::int64_t step = saved.state.step, last = recipe.trainer.total_training_steps;
  const std::string where = " of " + chosen->string();
  const std::string text =
      step == 0     ? "resumes after update " + std::to_string(saved.state.sft_step) + " of the cold start" + where
      : step < last ? "resumes after step " + std::to_string(step) + where
                    : "nothing left to do: step " + std::to_string(step) + where +
                          " is done, trainer.total_training_steps is " + std::to_string(last);
  return text + (changes.empty() ? "" : "; changed: " + text_of(changes));
}

ResumePoint find_resume_point(const Recipe& recipe, const Inputs& inputs, const RunFolder* folder, bool allow_change,
                              dist::Collectives& world) {
  ResumePoint point;
  if (folder != nullptr) point = choose(recipe, inputs, *folder, allow_change, world.size());
  // Ranks may have different working directories.
  std::string path = point.checkpoint ? point.checkpoint->string() : std::string();
  if (point.checkpoint && world.size() > 1) path = fs::absolute(path).string();
  path = world.all_gather(path).front();
  world.broadcast(std::as_writable_bytes(std::span(&point.state, 1)), 0);
  point.checkpoint = path.empty() ? std::nullopt : std::optional<fs::path>(path);
  return point;
}

}  // namespace qrl::train
