#include "train/run.h"

#include <cstdio>
#include <memory>

#include "base/log.h"
#include "base/threads.h"
#include "train/cold_start.h"
#include "train/evaluate.h"
#include "train/resume.h"
#include "train/shared_commit.h"
#include "train/trainer.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

/// The checkpoint that holds the state a run ended in; nothing when it made no step. A run that had nothing left to do
/// ended in the one it was resumed from.
std::optional<fs::path> last_checkpoint(const RunState& state, const RunFolder& folder, const ResumePoint& point) {
  const std::string name =
      state.step > 0 ? "step_" + std::to_string(state.step) : "sft_" + std::to_string(state.sft_step);
  if (fs::exists(folder.checkpoints() / name)) return folder.checkpoints() / name;
  return point.checkpoint;
}

/// The last lines of a run, from its metric rows alone: a finished run started again prints them too.
void print_result(const config::Recipe& recipe, const RunFolder& folder, const std::optional<fs::path>& checkpoint,
                  std::span<const PromptSet> held_out) {
  std::printf("run folder  %s\n", folder.path().c_str());
  std::printf("  config.yaml (resolved recipe)  metrics.jsonl  %srollouts/  checkpoints/  log.txt\n",
              recipe.sft.steps > 0 ? "sft_metrics.jsonl  " : "");
  if (checkpoint) std::printf("  model: %s (qrl-train export it to a Hugging Face folder)\n", checkpoint->c_str());
  else std::printf("  no checkpoint: the recipe asks for no step\n");
  const auto line = [&](const PromptSet& set) -> std::string {
    const auto rows = read_metric(folder.metrics_file(), score_name(set.data_source, recipe.eval));
    if (rows.empty()) return {};
    char text[160];
    const std::string name = set.data_source + " mean@" + std::to_string(recipe.eval.n);
    if (rows.front().first == 0) {
      std::snprintf(text, sizeof text, "%s: %.3f -> %.3f", name.c_str(), rows.front().second, rows.back().second);
    } else {
      std::snprintf(text, sizeof text, "%s: %.3f", name.c_str(), rows.back().second);
    }
    return text;
  };
  const auto print = [&](const char* what, const PromptSet& set) {  // a set without a row was never measured
    const std::string text = line(set);
    if (!text.empty()) std::printf("%s%s\n", what, text.c_str());
  };
  for (std::size_t i = 1; i < held_out.size(); ++i) print("also measured  ", held_out[i]);
  if (!held_out.empty()) print("held-out ", held_out.front());
  std::fflush(stdout);
}

/// The folder of rank 0, whose lock the run holds from here on; null on the others.
std::unique_ptr<RunFolder> open_folder(const config::Recipe& recipe, dist::Collectives& world) {
  std::unique_ptr<RunFolder> folder;
  if (world.is_first()) {
    folder = std::make_unique<RunFolder>(recipe.trainer.default_local_dir);
    base::set_log_file(folder->path() / "log.txt");
  }
  if (recipe.trainer.zero_stage > 0) {
    require_shared_folder(folder ? folder->path() : fs::path(),
                          "set trainer.default_local_dir to one that all hosts share, or trainer.zero_stage to 0",
                          world);
  }
  return folder;
}

/// Where the cold start's checkpoint is: rank 0's folder, wherever other ranks were started.
fs::path shared_cold_start(const config::Recipe& recipe, dist::Collectives& world) {
  const fs::path own = cold_start_checkpoint(recipe);
  return world.size() > 1 ? fs::path(world.all_gather(fs::absolute(own).string()).front()) : own;
}

/// Rank 0 makes the cold start with all threads of its machine; every rank goes on from its end.
void run_cold_start(RunParts& parts, const std::optional<fs::path>& checkpoint) {
  if (parts.world.is_first()) {
    base::set_num_threads(all_local_threads(parts.recipe, parts.world));
    make_cold_start(parts, checkpoint);
    set_threads(parts.recipe, parts.world);
  } else {
    await_cold_start(parts.world);
  }
  parts.world.broadcast(std::as_writable_bytes(std::span(&parts.state, 1)), 0);
}

/// The frozen policy that a KL loss is against: the cold start's end, or the model itself.
std::unique_ptr<learner::Learner> make_reference(RunParts& parts, const fs::path& cold_start) {
  if (parts.recipe.algorithm.kl_loss_coef == 0) return nullptr;
  learner::LearnerOptions options = learner_options(parts.recipe);
  options.trainable = false;
  options.forward = config::LearnerForward::bf16;  // frozen: no snapshot of its own
  options.bitwise = false;
  auto reference = std::make_unique<learner::Learner>(parts.policy.config, parts.policy.weights, options, parts.world);
  if (parts.recipe.sft.steps > 0) restore_learner(cold_start, parts.state, *reference, parts.world);
  return reference;
}

/// What happens once, between the cold start and the first step of RL: a new optimizer, since the cold start's moments
/// belong to another loss, and update-aware scaling.
void begin_rl(RunParts& parts, learner::Learner& learner) {
  const config::Recipe& recipe = parts.recipe;
  RunState& state = parts.state;
  if (state.cold_start) {
    learner.reset_optimizer(recipe.optim, learner_options(recipe).total_updates);
    state.cold_start = false;
    state.num_updates = 0;
  }
  if (state.step == 0 && state.uaq_scale != recipe.quant.uaq_scale) {  // else the checkpoint has it
    learner.apply_uaq(static_cast<float>(recipe.quant.uaq_scale / state.uaq_scale));
    state.uaq_scale = recipe.quant.uaq_scale;
  }
  constexpr double kUaqLr = 5e-6;  // the paper uses it near 1e-6 and switches it off at 1e-5
  if (recipe.quant.uaq_scale != 1 && recipe.optim.lr > kUaqLr) {
    base::log_warning("quant.uaq_scale " + std::to_string(recipe.quant.uaq_scale) +
                      " is for learning rates near 1e-6: above 5e-6 updates reach the codes without it");
  }
}

}  // namespace

void run(const config::LoadedRecipe& loaded, dist::Collectives& world, RunPart part) {
  const config::Recipe& recipe = loaded.recipe;
  set_threads(recipe, world);
  world.set_time_limit(static_cast<double>(recipe.trainer.collective_timeout_s));
  base::set_log_quiet(!world.is_first());

  Policy policy = make_policy(recipe);
  model::check_formats(policy.config, snapshot_formats(recipe.quant));
  (void)read_profile_file(recipe, policy.config);  // a wrong one shows before the cold start
  const auto verifier = reward::make_verifier(recipe.reward);
  const PromptSet prompts = load_train_prompts(recipe, policy.tokenizer, *verifier);
  const std::vector<PromptSet> held_out = load_held_out_prompts(recipe, policy.tokenizer, *verifier);
  warn_of_shared_prompts(prompts, held_out);
  const Inputs inputs = fingerprint(recipe, policy, prompts, held_out, world);

  const std::unique_ptr<RunFolder> folder = open_folder(recipe, world);
  ResumePoint point = find_resume_point(loaded, inputs, folder.get(), world);
  RunState state = point.state;
  const bool cold_start_done = state.step > 0 || state.sft_step >= recipe.sft.steps;
  const bool goes_on =
      part == RunPart::cold_start_only ? !cold_start_done : state.step < recipe.trainer.total_training_steps;
  if (folder && (goes_on || !fs::exists(folder->path() / "config.yaml")))
    state::replace_file(folder->path() / "config.yaml", loaded.annotated_yaml);

  MetricsFile metrics, sft_metrics;
  if (folder) {
    metrics = MetricsFile(folder->metrics_file(), state.metrics_bytes);
    if (recipe.sft.steps > 0) sft_metrics = MetricsFile(folder->sft_metrics_file(), state.sft_metrics_bytes);
  }
  RunParts parts{recipe,
                 loaded.resolved_yaml,
                 inputs,
                 world,
                 policy,
                 *verifier,
                 folder.get(),
                 state,
                 metrics,
                 sft_metrics,
                 std::move(point.unfinished_row),
                 {}};

  // What a machine lacks shows now, not after the cold start: a decoder that is made and dropped asks for all of it.
  if (config::draws_on_gpu(recipe) && part != RunPart::cold_start_only)
    (void)Sampler(policy.config, recipe, world, recipe.data.max_prompt_length);

  const bool fresh = !point.checkpoint;
  const fs::path cold_start = shared_cold_start(recipe, world);
  if (!cold_start_done) {
    run_cold_start(parts, point.checkpoint);
    point.checkpoint = cold_start;
  }
  if (part == RunPart::cold_start_only) {
    // A run that went on from a checkpoint elsewhere has no cold start of its own.
    if (folder) std::printf("cold start done: %s\n", (fs::exists(cold_start) ? cold_start : *point.checkpoint).c_str());
    return;
  }

  learner::Learner learner(policy.config, policy.weights, learner_options(recipe), world);
  if (point.checkpoint) restore_learner(*point.checkpoint, state, learner, world);
  const std::unique_ptr<learner::Learner> reference = make_reference(parts, cold_start);
  begin_rl(parts, learner);
  if (point.checkpoint) parts.quantiser = load_quantiser(*point.checkpoint, policy.config, world);
  if (parts.quantiser.profile != nullptr) require_same_profile(recipe, policy.config, *parts.quantiser.profile);
  else parts.quantiser.profile = find_profile(policy.config, learner.all_masters(), prompts, recipe);
  if (!fresh && state.step > 0) base::log_info("going on after step " + std::to_string(state.step));

  Trainer(parts, learner, reference.get(), prompts, held_out).train();
  if (folder) print_result(recipe, *folder, last_checkpoint(state, *folder, point), held_out);
}

}  // namespace qrl::train
