#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/clock.h"
#include "base/log.h"
#include "train/evaluate.h"
#include "train/gap_probe.h"
#include "train/quant_audit.h"
#include "train/signals.h"
#include "train/step_metrics.h"
#include "train/work_estimate.h"

namespace qrl::train {

void commit(RunParts& parts, const learner::Learner& learner, dist::Collectives& world) {
  parts.state.num_updates = learner.num_updates();
  parts.state.metrics_bytes = parts.metrics.sync();
  parts.state.sft_metrics_bytes = parts.sft_metrics.sync();
  std::filesystem::path dir = parts.folder != nullptr ? parts.folder->checkpoints() : std::filesystem::path();
  save_checkpoint(dir, parts.state, learner,
                  {parts.policy.config, parts.policy.tokenizer, parts.resolved_recipe, parts.inputs, world,
                   parts.unfinished_row, parts.quantizer});
  if (parts.folder != nullptr) prune_checkpoints(dir, parts.recipe.trainer.max_ckpt_to_keep, parts.recipe.sft.steps);
}

void stop_here(const RunParts& parts) {
  const bool nothing_yet = parts.state.step == 0 && parts.recipe.sft.steps == 0;
  std::string where = "stopped by a signal";
  if (nothing_yet) where += " before the first checkpoint";
  else if (parts.folder != nullptr) where += "; the checkpoint is in " + parts.folder->checkpoints().string();
  throw base::Error(base::ErrorKind::stopped, where, "", "",
                    nothing_yet ? "the same command starts again" : "the same command goes on from there");
}

void guard_finite(const learner::UpdateReport& report, const config::Recipe& recipe, RunState& state) {
  if (report.finite) {
    state.non_finite_streak = 0;
    return;
  }
  base::log_warning("update skipped on all ranks: " + report.non_finite + " is not finite");
  if (++state.non_finite_streak >= recipe.trainer.max_non_finite_steps) {
    throw base::Error(
        base::ErrorKind::guard, "training", "finite gradients",
        report.non_finite + " not finite in " + std::to_string(state.non_finite_streak) + " updates in a row",
        "lower optim.lr, or raise trainer.max_non_finite_steps");
  }
}

Trainer::Trainer(RunParts& parts, learner::Learner& learner, learner::Learner* reference, const PromptSet& prompts,
                 const std::vector<PromptSet>& held_out)
    : parts_(parts),
      learner_(learner),
      reference_(reference),
      prompts_(prompts),
      held_out_(held_out),
      order_(make_order(parts.recipe, prompts)),
      sampler_(parts.policy.config, parts.recipe, parts.world, parts.recipe.data.max_prompt_length),
      progress_("step", parts.state.step + 1, parts.recipe.trainer.total_training_steps, !parts.world.is_first()),
      health_(parts.recipe),
      metric_names_(learner::policy_metric_names(learner::policy_options(parts.recipe))),
      saved_step_(parts.state.step) {
  order_.restore(parts.state.prompts_drawn);
  if (parts.folder != nullptr) {
    for (const auto& [step, row] : read_rows(parts.folder->metrics_file())) (void)health_.observe(step, row);
  }
  sampler_.snapshot.use_profile(parts.quantizer.profile);
  publish();
  write_audit();
  check_gap(probe(), parts_.recipe.rollout_correction);
}

void Trainer::train() {
  const config::Recipe& recipe = parts_.recipe;
  RunState& state = parts_.state;
  const std::int64_t last = recipe.trainer.total_training_steps;
  const std::int64_t eval_freq = held_out_.empty() ? 0 : recipe.eval.freq;
  if (state.step == 0 && eval_freq > 0 && recipe.eval.before_train) {
    const std::optional<Metrics> row = evaluate_held_out();
    if (!row) stop_here(parts_);
    parts_.metrics.append(0, *row);
    show_scores(*row);
  }
  if (state.evaluation_due) finish_step(parts_.unfinished_row);
  while (state.step < last) {
    const double start_s = base::now_s();
    std::optional<Metrics> row = step(state.step + 1);
    if (!row) save_and_stop();
    ++state.step;
    state.evaluation_due = eval_freq > 0 && (state.step % eval_freq == 0 || state.step == last);
    (*row)["timing_s/save_checkpoint"] = save_s_;
    (*row)["timing_s/step"] = base::now_s() - start_s;
    finish_step(std::move(*row));
  }
}

void Trainer::finish_step(Metrics row) {
  const config::TrainerRecipe& trainer = parts_.recipe.trainer;
  RunState& state = parts_.state;
  if (state.evaluation_due) {
    const std::optional<Metrics> scores = evaluate_held_out();
    if (!scores) {
      parts_.unfinished_row = std::move(row);  // kept in the checkpoint: a row appears when it is whole
      save_and_stop();
    }
    row.merge(Metrics(*scores));
    state.evaluation_due = false;
  }
  row["perf/peak_memory_gib"] = peak_memory_gib();
  parts_.metrics.append(state.step, row);
  progress_.show(state.step, step_facts(row));
  show_scores(row);
  warn(row);
  check_gap(row, parts_.recipe.rollout_correction);  // behind the row that shows it

  const bool last = state.step == trainer.total_training_steps;
  const bool stop = parts_.world.any(stop_requested());
  if (stop && !last) save_and_stop();
  const bool due = trainer.save_freq > 0 && state.step % trainer.save_freq == 0;
  save_s_ = last || due ? save() : 0;
}

void Trainer::warn(const Metrics& row) {
  if (parts_.folder == nullptr) return;
  for (const std::string& warning : health_.observe(parts_.state.step, row)) base::log_warning(warning);
}

void Trainer::show_scores(const Metrics& row) {
  std::string text;
  for (const PromptSet& set : held_out_) {
    const auto score = row.find(score_name(set.data_source, parts_.recipe.eval));
    if (score == row.end()) continue;
    char figure[32];
    std::snprintf(figure, sizeof figure, ": %.3f", score->second);
    text += "  " + set.data_source + " mean@" + std::to_string(parts_.recipe.eval.n) + figure;
  }
  if (!text.empty()) progress_.say("eval after step " + std::to_string(parts_.state.step) + text);
}

void Trainer::save_and_stop() {
  save();
  stop_here(parts_);
}

double Trainer::save() {
  double seconds = 0;
  if (parts_.state.step != saved_step_) {
    const base::ScopedTimer timer(seconds);
    commit(parts_, learner_, parts_.world);
  }
  saved_step_ = parts_.state.step;
  return seconds;
}

std::optional<Metrics> Trainer::step(std::int64_t step) {
  Metrics metrics;
  const auto groups = roll_out(step, metrics);
  if (!groups) return std::nullopt;
  std::vector<MiniBatch> batches = make_mini_batches(*groups);
  add_frozen_logprobs(batches, metrics);

  std::vector<Metrics> updates;
  {
    const base::ScopedTimer timer(metrics["timing_s/update_actor"]);
    for (std::int64_t epoch = 0; epoch < parts_.recipe.actor.ppo_epochs; ++epoch) {
      for (const MiniBatch& batch : batches) {
        // A learner that reads the sampler's tensors needs them at the present weights for the next mini-batch. Nothing
        // is sampled until the publish below: fp8 scales of keys and values stay behind till then.
        if (!updates.empty() && parts_.recipe.quant.learner_forward != config::LearnerForward::bf16) publish_weights();
        updates.push_back(update(batch, updates.empty()));
      }
    }
  }
  add_learner_speed(batches, metrics);
  if (parts_.recipe.rollout.free_cache_engine) learner_.release_memory();  // for the KV cache, which comes back
  metrics.merge(combine_updates(updates));
  for (const std::string& name : metric_names_) metrics.try_emplace(name, std::numeric_limits<double>::quiet_NaN());
  {
    const base::ScopedTimer timer(metrics["timing_s/publish"]);
    publish();
  }
  {
    const base::ScopedTimer timer(metrics["timing_s/gap_probe"]);
    metrics.merge(probe());
  }
  metrics["training/policy_version"] = static_cast<double>(parts_.state.policy_version);
  return metrics;
}

std::optional<StepGroups> Trainer::roll_out(std::int64_t step, Metrics& metrics) {
  auto groups = sample_groups(parts_, prompts_, step, order_, sampler_, metrics);
  if (!groups) return std::nullopt;
  parts_.state.prompts_drawn = order_.num_taken();
  const decoder::DecoderStats& stats = sampler_.decoder.stats();
  double tokens = static_cast<double>(stats.decode_tokens);  // of all ranks: they wait for each other
  parts_.world.all_reduce_sum(std::span<double>(&tokens, 1));
  metrics["perf/tokens_per_s"] = tokens / std::max(metrics["timing_s/gen"], 1e-9);
  metrics["perf/kv_peak_pages"] = static_cast<double>(stats.peak_kv_pages);
  metrics["perf/preemptions"] = static_cast<double>(stats.preemptions);
  metrics["perf/prefix_hit_tokens"] = static_cast<double>(stats.shared_prompt_tokens);
  return groups;
}

std::vector<Trainer::MiniBatch> Trainer::make_mini_batches(const StepGroups& groups) const {
  const config::Recipe& recipe = parts_.recipe;
  // A sequence with advantage 0 adds exactly nothing to the gradient unless KL or entropy terms do: it is counted in
  // the denominators and spared the forward and backward pass. So do corrections whose statistics are over all tokens.
  const bool all_count = recipe.algorithm.kl_loss_coef != 0 || recipe.algorithm.entropy_coef != 0 ||
                         learner::needs_whole_mini_batch(learner::policy_options(recipe));
  const std::int64_t mini = recipe.actor.mini_batch_size;
  const std::int64_t num_batches =
      (groups.num_groups + mini - 1) / mini;  // the last is smaller when dynamic sampling found too few groups
  std::vector<MiniBatch> batches(static_cast<std::size_t>(num_batches));
  std::vector<std::vector<rollout::PackItem>> items(batches.size());
  std::vector<std::int64_t> counts(2 * batches.size(), 0);
  for (std::size_t i = 0; i < groups.rollouts.size(); ++i) {
    const rollout::Rollout& r = groups.rollouts[i];
    const auto b = static_cast<std::size_t>(groups.places[i / static_cast<std::size_t>(recipe.rollout.n)] / mini);
    if (recipe.algorithm.mask_truncated && r.completion.stop == types::StopReason::length) continue;
    counts[2 * b] += static_cast<std::int64_t>(r.completion.tokens.size());
    counts[2 * b + 1] += r.completion.tokens.empty() ? 0 : 1;
    if (all_count || r.advantage != 0) {
      items[b].push_back(
          {r.prompt->tokens, r.completion.tokens, r.completion.sampler_logprobs, static_cast<float>(r.advantage)});
    }
  }
  parts_.world.all_reduce_sum(std::span(counts));
  for (std::size_t b = 0; b < batches.size(); ++b) {
    batches[b] = {rollout::pack(items[b], recipe.actor.max_tokens_per_micro_batch), {counts[2 * b], counts[2 * b + 1]}};
  }
  return batches;
}

void Trainer::add_frozen_logprobs(std::vector<MiniBatch>& batches, Metrics& metrics) {
  const ops::DrawParams drawn_from = draw_params(parts_.recipe.rollout);
  // With one update per rollout the policy that sampled is the policy that learns: old log-probs are the forward's own,
  // unless something of the whole mini-batch must be known before its first micro-batch.
  const bool needs_old =
      updates_per_step(parts_.recipe) > 1 || learner::needs_whole_mini_batch(learner::policy_options(parts_.recipe));
  for (MiniBatch& batch : batches) {
    for (types::MicroBatch& micro : batch.micro) {
      if (needs_old && parts_.recipe.rollout.bitwise) {
        micro.old_logprobs = micro.sampler_logprobs;  // the same bits
      } else if (needs_old) {
        const base::ScopedTimer timer(metrics["timing_s/old_log_prob"]);
        micro.old_logprobs = learner_.score(micro, drawn_from).logprobs;
      }
      if (reference_ != nullptr) {
        const base::ScopedTimer timer(metrics["timing_s/ref"]);
        micro.reference_logprobs = reference_->score(micro, drawn_from).logprobs;
      }
    }
  }
}

Metrics Trainer::update(const MiniBatch& batch, bool is_first) {
  const config::Recipe& recipe = parts_.recipe;
  learner::LossOptions loss = learner::policy_options(recipe);
  loss.at_sampling_weights = is_first;
  const Metrics signals = learner::prepare_correction(batch.micro, loss, parts_.world);
  for (const types::MicroBatch& micro : batch.micro) {
    learner_.accumulate(micro, batch.counts, loss, draw_params(recipe.rollout), &micro == &batch.micro.back());
  }
  learner::UpdateReport report = learner_.update();
  guard_finite(report, recipe, parts_.state);
  if (report.finite) ++parts_.state.policy_version;
  report.metrics.insert(signals.begin(), signals.end());
  return std::move(report.metrics);
}

void Trainer::add_learner_speed(const std::vector<MiniBatch>& batches, Metrics& metrics) {
  double tokens = 0, operations = 0;
  for (const MiniBatch& batch : batches) {
    std::int64_t counted = 0;
    for (const types::MicroBatch& micro : batch.micro) {
      tokens += static_cast<double>(micro.num_tokens());
      counted += std::count(micro.loss_mask.begin(), micro.loss_mask.end(), 1);
    }
    operations += learner_operations(parts_.policy.config, batch.micro, counted);
  }
  if (learner_ceiling_ == 0) learner_ceiling_ = learner_ceiling(parts_.recipe);
  const auto epochs = static_cast<double>(parts_.recipe.actor.ppo_epochs);
  const double epoch_s = std::max(metrics["timing_s/update_actor"] / epochs, 1e-9);
  double sums[] = {tokens, operations};
  parts_.world.all_reduce_sum(std::span<double>(sums));
  metrics["perf/learner_tokens_per_s"] = sums[0] / epoch_s;
  metrics["perf/mfu/actor"] = sums[1] / epoch_s / (learner_ceiling_ * parts_.world.size());
}

void Trainer::publish_weights() {
  learner_.publish(sampler_.snapshot, parts_.state.policy_version, sampler_.decoder.device_weights());
}

void Trainer::publish() {
  publish_weights();
  load_published(
      sampler_,
      calibration_prompts(prompts_, parts_.recipe.trainer.seed, static_cast<std::uint64_t>(parts_.state.prompts_drawn)),
      parts_.recipe.quant, parts_.quantizer);
}

Metrics Trainer::probe() {
  return probe_gap(sampler_, learner_, probe_requests(prompts_, parts_.recipe.trainer.seed), parts_.recipe,
                   train_sampling(parts_.recipe, parts_.policy.config, parts_.policy.tokenizer));
}

void Trainer::write_audit() const {
  const std::vector<std::string> errors = format_error_report(learner_, sampler_.decoder.snapshot(), parts_.world);
  if (parts_.folder == nullptr) return;
  const std::vector<std::string> audit = quant_audit(learner_, sampler_.decoder.snapshot());
  std::string text;
  for (const std::string& line : audit) text += line + "\n";
  text += "\n";
  for (const std::string& line : errors) text += line + "\n";
  state::replace_file(parts_.folder->path() / "quant_audit.txt", text);
  base::log_info(audit_summary(audit));
}

std::optional<Metrics> Trainer::evaluate_held_out() try {
  Metrics metrics;
  double testing_s = 0;
  {
    const base::ScopedTimer timer(testing_s);
    metrics = evaluate(sampler_.decoder, held_out_, parts_.recipe,
                       eval_sampling(parts_.recipe, parts_.policy.config, parts_.policy.tokenizer),
                       parts_.policy.tokenizer, parts_.verifier, parts_.world);
  }
  metrics["timing_s/testing"] = testing_s;
  return metrics;
} catch (const Abandoned&) {
  return std::nullopt;
}

}  // namespace qrl::train
