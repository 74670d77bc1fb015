#include "train/step/weight_publisher.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "train/metrics/health.h"
#include "train/plan/formats.h"
#include "train/plan/options.h"
#include "train/prompts/prompts.h"
#include "train/step/gap_probe.h"

namespace qrl::train {

namespace {

constexpr const char* kSame = "; same storage";

/// Returns one line per tensor of embedding, linear layers and lm_head: the sampler's format and scales, what the
/// learner reads, and whether both share memory.
std::vector<std::string> quant_audit(const learner::Learner& learner, const model::Snapshot& read_by_sampler) {
  const model::Snapshot* published = learner.published();
  std::vector<model::SnapshotTensor> theirs;
  if (published != nullptr) theirs = published->tensors();
  const std::vector<model::SnapshotTensor> ours = read_by_sampler.tensors();
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].is_gain) continue;
    const bool in_place = learner.reads_in_place(ours[i].name);
    const bool same = in_place && i < theirs.size() && theirs[i].data == ours[i].data;
    const std::string mode(name(learner.forward_mode()));
    const bool is_adapter = ours[i].name.find(".lora_") != std::string::npos;
    const std::string reads = in_place ? mode
                              : is_adapter && learner.forward_mode() != learner::LearnerForward::bf16
                                  ? "its fp32 masters, rounded as the sampler's"
                              : learner.forward_mode() == learner::LearnerForward::bf16
                                  ? "its fp32 masters in model.dtype"
                                  : mode + ", from decoded copies";
    lines.push_back(ours[i].name + ": sampler " + ours[i].what + "; learner " + reads +
                    (same ? kSame : "; storage of its own"));
  }
  return lines;
}

/// Adds a tensor's matrices to `counts` by format. `forms`: SnapshotTensor::what, such as "bf16 [8, 4]; int8 [8, 4] ×
/// 7, …".
void count_matrices(std::string_view forms, std::map<std::string, std::int64_t>& counts) {
  constexpr std::string_view kTimes = "] × ";
  while (!forms.empty()) {
    const std::string_view form = forms.substr(0, forms.find("; "));
    const std::size_t times = form.find(kTimes);
    std::int64_t count = 1;
    if (times != form.npos) std::from_chars(form.data() + times + kTimes.size(), form.data() + form.size(), count);
    counts[std::string(form.substr(0, form.find(" [")))] += count;
    forms.remove_prefix(std::min(form.size() + 2, forms.size()));
  }
}

std::string audit_summary(const std::vector<std::string>& audit) {
  std::map<std::string, std::int64_t> kinds;
  std::int64_t same = 0;
  for (const std::string& line : audit) {
    const std::size_t colon = line.find(": sampler ") + 10;
    const bool is_layer = line.starts_with("layers.") && line.find(".lora_") > colon;
    if (is_layer) count_matrices(std::string_view(line).substr(colon, line.find("; learner ") - colon), kinds);
    same += line.ends_with(kSame) ? 1 : 0;
  }
  std::string summary = "linear layers of the sampler:";
  for (const auto& [format, count] : kinds) summary += " " + std::to_string(count) + " × " + format + ",";
  summary.back() = ';';
  const std::string learner = same == 0 ? " the learner's forward pass computes with its own weights"
                                        : " the learner's forward pass reads " + std::to_string(same) +
                                              " of the sampler's " + std::to_string(audit.size()) + " tensors";
  return summary + learner + " (quant_audit.txt lists each)";
}

/// Returns a line per weight of linear layers and lm_head: its format and errors against the masters. Collective if
/// sharded; otherwise empty except on the first rank.
std::vector<std::string> format_error_report(const learner::Learner& learner, const model::Snapshot& published,
                                             dist::Collectives& world) {
  if (!learner.is_sharded() && !world.is_first()) return {};
  std::string mine;  // one line per matrix, empty if another rank holds its master
  for (const model::WeightError& weight :
       published.format_errors([&](const std::string& weight) { return learner.state().master(weight); })) {
    if (!weight.weight.empty()) {
      mine += weight.weight + " as " + std::string(quant::name(weight.format)) +
              base::format(": max error %.3g, RMS %.3g, SNR %.1f dB, cosine %.6f", weight.error.max_abs,
                           weight.error.rms, weight.error.snr_db, weight.error.cosine);
    }
    mine += "\n";
  }
  std::vector<std::string> lines;
  for (const std::string& theirs : learner.is_sharded() ? world.all_gather(mine) : std::vector{mine}) {
    std::istringstream text(theirs);
    std::string line;
    for (std::size_t i = 0; std::getline(text, line); ++i) {
      if (i == lines.size()) lines.emplace_back();
      if (!line.empty()) lines[i] = line;
    }
  }
  return lines;
}

}  // namespace

double gain_noise_sigma(const GainNoiseRecipe& noise, std::int64_t steps_done, std::int64_t total_steps) {
  if (noise.start == 0) return 0;
  const std::int64_t stage =
      std::min(steps_done * noise.stages / std::max(total_steps, std::int64_t{1}), noise.stages - 1);
  if (stage == 0) return 0;
  const double place = static_cast<double>(stage - 1) / static_cast<double>(noise.stages - 2);
  return noise.start * std::pow(noise.end / noise.start, place);
}

WeightPublisher::WeightPublisher(const RunContext& run, const RunState& state, learner::Learner& learner,
                                 Sampler& sampler, QuantizerState& quantizer)
    : run_(run), state_(state), learner_(learner), sampler_(sampler), quantizer_(quantizer) {}

void WeightPublisher::begin() {
  sampler_.snapshot.use_profile(quantizer_.profile);
  publish(state_.step);
  write_audit();
}

void WeightPublisher::publish_weights() {
  learner_.publish(sampler_.snapshot, state_.policy_version, sampler_.decoder.device_weights());
}

void WeightPublisher::publish_for_learner(RolloutSource& source) {
  if (run_.recipe().quant.learner.forward == learner::LearnerForward::bf16) return;
  source.drain();
  publish_weights();
}

void WeightPublisher::publish(std::int64_t steps_done) {
  const TrainerRecipe& trainer = run_.recipe().trainer;
  noise_sigma_ = gain_noise_sigma(run_.recipe().quant.noise, steps_done, trainer.total_training_steps);
  sampler_.snapshot.use_gain_noise({trainer.seed, noise_sigma_});
  publish_weights();
  load_published(sampler_,
                 calibration_prompts(run_.plan.prompts, run_.recipe().trainer.seed,
                                     static_cast<std::uint64_t>(state_.prompts_drawn)),
                 run_.recipe().quant, quantizer_);
}

void WeightPublisher::see(const StepGroups& groups) {
  see_responses(groups.rollouts, static_cast<std::int32_t>(run_.recipe().rollout.n), groups.places, run_.recipe().quant,
                quantizer_, run_.world);
}

Metrics WeightPublisher::metrics_of_step() {
  const QuantRecipe& quant = run_.recipe().quant;
  const model::Snapshot& snapshot = sampler_.snapshot;
  Metrics metrics;
  const model::QuantizedValues values = model::quantized_values(snapshot);
  const std::int64_t changed = values.num_changed - std::exchange(changed_before_, values.num_changed);
  const bool are_quantized = snapshot.base_number() > std::exchange(publishes_before_, snapshot.base_number());
  if (are_quantized && values.count > 0)
    metrics["quant/changed_fraction"] = static_cast<double>(changed) / static_cast<double>(values.count);
  if (quant.noise.start > 0) metrics["quant/gain_noise_std"] = noise_sigma_;
  if (kv_format(quant) == quant::KvFormat::fp8_e4m3 && quant.kv_when != CalibrateKv::once &&
      !samples_on_gpu(run_.recipe()))
    metrics["quant/kv_saturated_fraction"] = sampler_.decoder.kv_scales().saturated_fraction;
  return metrics;
}

Metrics WeightPublisher::probe() {
  const Recipe& recipe = run_.recipe();
  return probe_gap(sampler_, learner_, probe_requests(run_.plan.prompts, recipe.trainer.seed), recipe,
                   run_.plan.train_sampling);
}

Metrics WeightPublisher::first_probe() {
  const Recipe& recipe = run_.recipe();
  if (state_.step > 0 || recipe.model.path.empty()) return probe();
  Metrics gap = probe_gap(sampler_, learner_, probe_requests(run_.plan.prompts, recipe.trainer.seed, kFirstProbe),
                          recipe, run_.plan.train_sampling, kFirstProbe);
  constexpr double kWide = 0.01;  // beyond rotated INT8's before training (docs/science/real-weights.md)
  const double k3 = gap.at("mismatch/probe_k3_kl");
  const std::string text =
      base::format("before step 1 the gap between sampler and learner has a k3 of %.2g over up to %d tokens", k3,
                   kFirstProbe.num_prompts * kFirstProbe.num_samples * kFirstProbe.num_tokens);
  if (k3 <= kWide) base::log_info(text);
  else base::log_warning(text + base::format(", above %g: ", kWide) + gap_advice(recipe));
  return gap;
}

void WeightPublisher::write_audit() const {
  const std::vector<std::string> errors = format_error_report(learner_, sampler_.decoder.snapshot(), run_.world);
  if (run_.folder == nullptr) return;
  const std::vector<std::string> audit = quant_audit(learner_, sampler_.decoder.snapshot());
  std::string text;
  for (const std::string& line : audit) text += line + "\n";
  text += "\n";
  for (const std::string& line : errors) text += line + "\n";
  state::replace_file(run_.folder->path() / "quant_audit.txt", text);
  base::log_info(audit_summary(audit));
}

}  // namespace qrl::train
