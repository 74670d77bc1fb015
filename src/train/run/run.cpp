#include "train/run/run.h"

#include <cerrno>  // program_invocation_name
#include <cstdio>
#include <exception>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/threads.h"
#include "model/peft.h"
#include "ops/isa.h"
#include "report/measures.h"
#include "report/sessions.h"
#include "train/checkpoint/resume.h"
#include "train/evaluate/export_score.h"
#include "train/files/shared_commit.h"
#include "train/files/wandb_logger.h"
#include "train/metrics/health.h"
#include "train/metrics/held_out_names.h"
#include "train/plan/disk_estimate.h"
#include "train/plan/formats.h"
#include "train/plan/machine.h"
#include "train/plan/options.h"
#include "train/plan/settings.h"
#include "train/policy/adapters.h"
#include "train/policy/policy.h"
#include "train/policy/sampler.h"
#include "train/prompts/prompts.h"
#include "train/run/cold_start.h"
#include "train/run/frozen.h"
#include "train/signals.h"
#include "train/trainer.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

std::optional<fs::path> last_checkpoint(const RunState& state, const RunFolder& folder, const ResumePoint& point) {
  const std::string name =
      state.step > 0 ? "step_" + std::to_string(state.step) : "sft_" + std::to_string(state.sft_step);
  if (fs::exists(folder.checkpoints() / name)) return folder.checkpoints() / name;
  return point.checkpoint;
}

void say(const std::string& line) {
  std::printf("%s\n", base::printable(line).c_str());
  base::log_to_file(line);
}

std::string health_line(const Recipe& recipe, const RunFolder& folder) {
  Health health(recipe);
  for (const report::Row& row : report::read_rows(folder.metrics_file()).rows)
    (void)health.observe(row.step, row.metrics);
  const std::string summary = health.summary();
  return summary.empty() ? "" : "warnings  " + summary + " (log.txt has causes and what to try)";
}

void print_result(const Recipe& recipe, const RunFolder& folder, const std::optional<fs::path>& checkpoint,
                  std::span<const PromptSet> held_out, const std::vector<std::string>& export_scores) {
  say("run folder  " + folder.path().string());
  say(std::string("  config.yaml (resolved recipe)  metrics.jsonl  ") +
      (fs::exists(folder.sft_metrics_file()) ? "sft_metrics.jsonl  " : "") + "rollouts/  checkpoints/  log.txt");
  if (checkpoint) {
    say("  model: " + checkpoint->string());
    const char* kind = trains_adapters(recipe) ? "PEFT" : "Hugging Face";
    const std::string command =
        base::shell_word(program_invocation_name) + " export " + base::shell_word(checkpoint->string());
    say(std::string("  as a ") + kind + " folder: " + command + " --out DIR");
    say((held_out.empty() ? "  sampled as " : "  sampled and scored as ") + policy_text(recipe) +
        (has_quantized_export(recipe) ? ": " + command + " --quantized --out DIR" : ""));
  } else {
    say("  no checkpoint: the recipe has no steps");
  }
  const report::Measures measures = report::read_measures(folder.metrics_file());
  const auto line = [&](const PromptSet& set) -> std::string {
    const std::string metric = score_name(set.data_source, recipe.eval.n, measures.held_out_by_score(set.data_source));
    const auto rows = read_score(folder.metrics_file(), metric);
    if (rows.empty()) return {};
    const auto& [step, score] = rows.back();
    const std::string name = shown_score_name(metric) + ": ";
    if (rows.size() == 1)
      return name + base::format("%.3f after step %lld, the only evaluation", score, static_cast<long long>(step));
    return name + (rows.front().first == 0 ? base::format("%.3f -> ", rows.front().second) : "") +
           base::format("%.3f", score);
  };
  const auto print = [&](const char* what, const PromptSet& set) {
    const std::string text = line(set);
    if (!text.empty()) say(what + text);
  };
  if (const std::string warnings = health_line(recipe, folder); !warnings.empty()) say(warnings);
  for (const std::string& score : export_scores) say(score);
  for (std::size_t i = 1; i < held_out.size(); ++i) print("also measured  ", held_out[i]);
  if (!held_out.empty()) print("held-out ", held_out.front());
  std::fflush(stdout);
}

std::unique_ptr<RunFolder> open_folder(const Recipe& recipe, dist::Collectives& world) {
  std::unique_ptr<RunFolder> folder;
  if (world.is_first()) {
    folder = std::make_unique<RunFolder>(recipe.trainer.default_local_dir);
    base::set_log_file(folder->path() / "log.txt");
  }
  if (recipe.trainer.zero_stage > 0) {
    require_shared_folder(folder ? folder->path() : fs::path(),
                          "set trainer.default_local_dir to a folder that all hosts share, or trainer.zero_stage to 0",
                          world);
  }
  return folder;
}

fs::path shared_cold_start(const Recipe& recipe, dist::Collectives& world) {
  const fs::path own = cold_start_checkpoint(recipe);
  return world.size() > 1 ? fs::path(world.all_gather(fs::absolute(own).string()).front()) : own;
}

/// Returns the adapters of the cold start or of lora.path. Returns none if RL begins with new adapters.
std::optional<model::WeightSource> first_adapters(const RunContext& run, const fs::path& cold_start) {
  const Recipe& recipe = run.recipe();
  if (recipe.sft.steps > 0 && cold_start_trains_adapters(recipe))
    return model::open_peft(cold_start, run.plan.model).adapters;
  return given_adapters(recipe, run.plan.model);
}

void begin_rl(const RunPlan& plan, RunState& state, learner::Learner& learner) {
  const Recipe& recipe = plan.recipe();
  if (state.cold_start) {
    learner.reset_optimizer(recipe.optim, plan.learner.total_updates);
    state.cold_start = false;
    state.num_updates = 0;
  }
  if (state.step == 0 && state.uaq_scale != recipe.quant.uaq_scale) {  // else the loaded weights are already scaled
    learner.apply_uaq(static_cast<float>(recipe.quant.uaq_scale / state.uaq_scale));
    state.uaq_scale = recipe.quant.uaq_scale;
  }
  constexpr double kUaqLr = 5e-6;  // the paper scales at learning rates near 1e-6, not at 1e-5
  if (recipe.quant.uaq_scale != 1 && recipe.optim.lr > kUaqLr) {
    base::log_warning("quant.uaq_scale " + std::to_string(recipe.quant.uaq_scale) +
                      " is for learning rates near 1e-6: above 5e-6 updates reach the quantized values without it");
  }
}

void begin_log(const RunOutline& outline, const RunOptions& options, const dist::Collectives& world) {
  if (!world.is_first()) return;
  const LoadedRecipe& loaded = outline.loaded;
  base::log_to_file("command: " + options.command);
  base::log_to_file("recipe " + loaded.file.string() + ", resolved " + recipe_hash(loaded));
  for (const std::string& line : describe_settings(loaded)) say(line);
  if (!outline.chosen_keys.empty()) say("GPU plan    " + outline.gpu_plan);
  std::fflush(stdout);
  warn_of_settings(loaded, outline.model);
}

/// Warns of too little memory and, if the run writes checkpoints, of too little disk space.
void warn_of_room(const RunPlan& plan, bool has_work) {
  if (!plan.memory_doubt.empty())
    base::log_warning(plan.memory_doubt + "; the run may be killed (--dry-run lists the parts)");
  if (const std::string doubt = has_work ? disk_doubt(plan.recipe(), plan.model) : ""; !doubt.empty())
    base::log_warning(doubt);
}

void record_changes(const ResumePoint& point, MetricsFile& metrics) {
  for (const config::KeyChange& change : point.changes) {
    base::log_info("changed after step " + std::to_string(point.state.step) + " (--allow-change): " + change.key + " " +
                   change.before + " -> " + change.after);
  }
  metrics.append_changes(point.state.step, point.changes);
}

/// Calls export_score_lines. On a stop request, ends the run by stop_here, because the checkpoint already exists.
std::vector<std::string> score_export(const RunContext& run, std::int64_t step, const learner::Learner& learner,
                                      const Checkpointer& checkpointer) try {
  return export_score_lines(run, step, learner);
} catch (const Cancelled&) {
  checkpointer.stop_here();
}

void open_metrics(const Recipe& recipe, const RunFolder& folder, const ResumePoint& point, MetricsFile& metrics,
                  MetricsFile& sft_metrics) {
  metrics = MetricsFile(folder.metrics_file(), point.state.metrics_bytes);
  const bool own_cold_start = recipe.sft.steps > 0 && recipe.sft.from.empty();
  if (own_cold_start) sft_metrics = MetricsFile(folder.sft_metrics_file(), point.state.sft_metrics_bytes);
  record_changes(point, metrics);
  if (!recipe.trainer.tensorboard) return;
  metrics.mirror_to(folder.tensorboard(), folder.path());
  if (own_cold_start) sft_metrics.mirror_to(folder.tensorboard() / "sft");
}

/// Throws an input error if the recipe wants W&B and this machine cannot send to it.
void require_wandb(const Recipe& recipe, const dist::Collectives& world) {
  if (!recipe.trainer.wandb || !world.is_first()) return;
  const std::string fault = WandbLogger::fault();
  QRL_REQUIRE(fault.empty(), "trainer.wandb", "a Python with wandb that has a login", fault,
              "pip install wandb and run wandb login, or set WANDB_MODE=offline");
}

/// Appends this start's line to sessions.jsonl; the destructor completes it.
class SessionLine {
 public:
  SessionLine(const RunFolder* folder, const RunState& state, const dist::Collectives& world,
              const std::string& program)
      : folder_(folder), state_(state) {
    if (folder_ == nullptr) return;
    report::Session session = report::session_here();
    session.isa = ops::name(ops::isa());
    session.program = program;
    session.ranks = world.size();
    session.threads = base::num_threads();
    session.first_step = state.step + 1;
    report::begin_session(folder_->sessions_file(), session);
  }
  ~SessionLine() {
    if (folder_ == nullptr) return;
    const bool failed = std::uncaught_exceptions() > 0;
    const std::string stopped = std::string("stopped by ") + stop_reason();
    const char* how = !failed ? "done" : is_stopped() ? stopped.c_str() : "an error (log.txt has it)";
    try {
      report::end_session(folder_->sessions_file(), state_.step, how);
    } catch (const base::Error& error) {
      base::log_warning(error.what());
    }
  }
  SessionLine(const SessionLine&) = delete;
  SessionLine& operator=(const SessionLine&) = delete;

 private:
  const RunFolder* folder_;
  const RunState& state_;
};

void train_policy(const RunContext& run, RunState& state, ResumePoint& point, Checkpointer& checkpointer,
                  QuantizerState& quantizer, MetricsFile& metrics, const fs::path& cold_start, bool has_work) {
  const Recipe& recipe = run.recipe();
  const Policy& policy = run.plan.policy;
  dist::Collectives& world = run.world;
  const bool has_adapters = trains_adapters(recipe);
  learner::LearnerOptions options = run.plan.learner;
  if (!point.checkpoint) options.lora_initial = given_adapters(recipe, policy.config);
  learner::Learner learner(policy.config, has_adapters ? *run.base->weights : policy.weights, options, world);
  // A cold start of all weights is the base of new adapters.
  const bool adapters_are_new = has_adapters && state.cold_start && !cold_start_trains_adapters(recipe);
  if (point.checkpoint && !adapters_are_new) {
    if (has_adapters && world.is_first()) require_same_base(*point.checkpoint, run.base->path, run.base->hash);
    restore_learner(*point.checkpoint, state, learner, world);
  }
  if (has_adapters && recipe.algorithm.kl_loss_coef != 0) learner.keep_reference(first_adapters(run, cold_start));
  begin_rl(run.plan, state, learner);
  if (point.checkpoint) quantizer = load_quantizer(*point.checkpoint, policy.config, world);
  if (quantizer.profile != nullptr) require_same_profile(recipe, policy.config, *quantizer.profile);
  else quantizer.profile = find_profile(policy.config, learner.state().all_masters(), run.plan.prompts, recipe);
  std::optional<Reference> reference;
  if (recipe.algorithm.kl_loss_coef != 0 && !has_adapters) reference.emplace(run, state, cold_start, quantizer.profile);
  if (state.step > 0) {
    base::log_info(has_work ? "continuing after step " + std::to_string(state.step)
                            : "nothing left to do: step " + std::to_string(state.step) +
                                  " is done, trainer.total_training_steps is " +
                                  std::to_string(recipe.trainer.total_training_steps));
  }

  Trainer(run, state, learner, reference ? &reference->learner : nullptr, quantizer, metrics,
          std::move(point.unfinished_row), checkpointer)
      .train();
  learner.state().free_moments();  // makes room for the scored fp32 weights
  const std::vector<std::string> export_scores = score_export(run, state.step, learner, checkpointer);
  if (run.folder != nullptr)
    print_result(recipe, *run.folder, last_checkpoint(state, *run.folder, point), run.plan.held_out, export_scores);
}

void set_time_limits(const TrainerRecipe& trainer, dist::Collectives& world) {
  if (trainer.max_time) set_time_limit(*trainer.max_time);
  world.set_time_limit(static_cast<double>(trainer.collective_timeout_s));
}

/// Makes and drops a decoder, to check memory limits before the cold start.
void require_decoder(const Recipe& recipe, const Policy& policy, dist::Collectives& world) {
  if (samples_on_gpu(recipe)) (void)Sampler(policy.config, recipe, world, recipe.data.max_prompt_length);
}

}  // namespace

void run(const LoadedRecipe& given, dist::Collectives& world, const RunOptions& options) {
  const RunPart part = options.part;
  set_time_limits(given.recipe.trainer, world);
  set_threads(given.recipe, world);
  base::set_log_quiet(!world.is_first());
  require_wandb(given.recipe, world);
  const PlanRequest request{world.size(), world.local_size()};
  RunOutline outline = outline_run(given, request, world);
  begin_log(outline, options, world);
  const RunPlan plan = plan_run(std::move(outline), request, world);
  const Recipe& recipe = plan.recipe();

  const std::unique_ptr<RunFolder> folder = open_folder(recipe, world);
  ResumePoint point = find_resume_point(recipe, plan.inputs, folder.get(), options.allow_change, world);
  RunState state = point.state;
  const bool cold_start_done = state.step > 0 || state.sft_step >= recipe.sft.steps;
  const bool has_work =
      part == RunPart::cold_start_only ? !cold_start_done : state.step < recipe.trainer.total_training_steps;
  if (folder) warn_of_room(plan, has_work);
  if (folder && (has_work || !fs::exists(folder->path() / "config.yaml")))
    state::replace_file(folder->path() / "config.yaml", plan.loaded.annotated_yaml);

  if (folder) plan.verifier->log_to(folder->path() / "reward.log");
  if (folder && plan.conversations) plan.conversations->environment->log_to(folder->path() / "environment.log");
  MetricsFile metrics, sft_metrics;
  if (folder) open_metrics(recipe, *folder, point, metrics, sft_metrics);
  const auto wandb = folder && recipe.trainer.wandb ? std::make_unique<WandbLogger>(folder->path()) : nullptr;
  const SessionLine session(folder.get(), state, world, options.program);
  const bool has_teacher = !recipe.algorithm.teacher.path.empty() && part != RunPart::cold_start_only;
  const std::unique_ptr<Teacher> teacher =
      has_teacher ? std::make_unique<Teacher>(recipe, plan.policy, world) : nullptr;
  if (part != RunPart::cold_start_only) require_decoder(recipe, plan.policy, world);

  QuantizerState quantizer;
  const fs::path cold_start = shared_cold_start(recipe, world);
  const bool begins_with_base = recipe.sft.steps == 0 || cold_start_trains_adapters(recipe);
  std::optional<AdapterBase> base;
  if (trains_adapters(recipe) && begins_with_base) base = find_base(recipe, plan.policy, cold_start);
  if (!cold_start_done) {
    const RunContext context{plan, world, folder.get(), nullptr, base ? &*base : nullptr};
    Checkpointer checkpointer(context, state, metrics, sft_metrics, quantizer);
    run_cold_start(context, state, sft_metrics, checkpointer, point.checkpoint);
    point.checkpoint = cold_start;
  }
  if (part == RunPart::cold_start_only) {
    // A run resumed from elsewhere has no cold start of its own.
    if (folder) say("cold start done: " + (fs::exists(cold_start) ? cold_start : *point.checkpoint).string());
    return;
  }

  if (trains_adapters(recipe) && !begins_with_base) base = find_base(recipe, plan.policy, cold_start);
  const RunContext context{plan, world, folder.get(), teacher ? &teacher->learner : nullptr, base ? &*base : nullptr};
  Checkpointer checkpointer(context, state, metrics, sft_metrics, quantizer);
  train_policy(context, state, point, checkpointer, quantizer, metrics, cold_start, has_work);
}

}  // namespace qrl::train
