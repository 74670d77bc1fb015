#include "learner/learner.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/thread_scope.h"
#include "base/threads.h"
#include "learner/engine/engines.h"
#include "learner/learner_parts.h"
#include "learner/tensors/memory.h"
#include "learner/tensors/torch.h"
#include "learner/update/schedule.h"
#include "model/block.h"

namespace qrl::learner {

namespace {

void check_options(const OptimizerOptions& optim, std::int64_t total_updates) {
  QRL_REQUIRE(optim.lr_scheduler == config::LrScheduler::constant || total_updates > 0, "optim.lr_scheduler",
              "a total number of updates for a schedule that ends", std::to_string(total_updates));
}

}  // namespace

Learner::Learner(const model::ModelConfig& config, const model::WeightSource& initial, const LearnerOptions& options,
                 dist::Collectives& world)
    : Learner(config, initial, options, world, choose_engine(config, options, world)) {}

Learner::Learner(const model::ModelConfig& config, const model::WeightSource& initial, const LearnerOptions& options,
                 dist::Collectives& world, std::unique_ptr<ForwardEngine> engine) {
  check_options(options.optim, options.total_updates);
  QRL_REQUIRE(options.logprob_chunk_tokens >= 1, "actor.logprob_chunk_tokens", "1 or more",
              std::to_string(options.logprob_chunk_tokens));
  const base::ThreadsInScope threads(options.num_threads);
  at::set_num_threads(base::num_threads());
  keep_tensor_memory();
  const torch::NoGradGuard no_grad;
  parts_ = std::make_unique<LearnerParts>(config, initial, options, world, std::move(engine));
  state_.emplace(*parts_);
}

Learner::~Learner() {
  parts_.reset();
  release_tensor_memory();
}

TokenScores Learner::score(const types::MicroBatch& batch, const ops::SampleParams& sample_params) {
  return score_by(nullptr, batch, sample_params);
}

void Learner::keep_reference(const std::optional<model::WeightSource>& start) {
  parts_->keeps_reference = true;
  parts_->reference_start = start;
  parts_->reference.reset();
}

bool Learner::has_reference() const { return parts_->keeps_reference; }

TokenScores Learner::score_reference(const types::MicroBatch& batch, const ops::SampleParams& sample_params) {
  LearnerParts& parts = *parts_;
  QRL_INVARIANT(parts.keeps_reference, "learner", "a reference", "none");
  if (parts.published != nullptr) parts.engine->prepare(parts.parameters, *parts.published);
  if (parts.reference == nullptr) {  // the snapshot published by now gives the formats
    const torch::NoGradGuard no_grad;
    parts.reference = std::make_unique<ReferencePolicy>(parts.config, parts.options.lora, parts.parameters, parts.base,
                                                        parts.reference_start);
  }
  return score_by(&parts.reference->policy(), batch, sample_params);
}

TokenScores Learner::score_by(const PolicyWeights* policy, const types::MicroBatch& batch,
                              const ops::SampleParams& sample_params) {
  const base::ThreadsInScope threads(parts_->options.num_threads);
  parts_->finish_micro_batch();
  const torch::NoGradGuard no_grad;
  const PackedRows rows = parts_->packer.rows(batch);
  const TargetRows targets = parts_->packer.targets(batch, sample_params);
  TokenScores scores{std::vector<float>(batch.tokens.size()), std::vector<float>(batch.tokens.size())};
  if (targets.rows.empty()) return scores;
  const TargetScores counted_scores = parts_->score(rows, targets, false, policy);
  counted_scores.wait();
  for (std::size_t i = 0; i < targets.rows.size(); ++i) {
    const auto at = static_cast<std::size_t>(targets.rows[i]);
    scores.logprobs[at] = counted_scores.log_probs_M.data_ptr<float>()[i];
    scores.entropy[at] = counted_scores.entropy_M.data_ptr<float>()[i];
  }
  return scores;
}

void Learner::accumulate(const types::MicroBatch& batch, const types::GlobalCounts& counts, const LossOptions& loss,
                         const ops::SampleParams& sample_params, bool is_last) {
  const base::ThreadsInScope threads(parts_->options.num_threads);
  parts_->require_trainable();
  QRL_INVARIANT(!parts_->sums.begun(), "micro-batch", "an update after the last one", "another");
  auto next = std::make_unique<MicroBatchInFlight>(batch, counts, loss);
  next->rows = parts_->packer.rows(batch);
  next->targets = parts_->packer.targets(next->batch, sample_params);  // into which they point
  next->targets.entropy_is_trained = loss.kind == LossKind::policy && loss.algorithm.entropy_coef != 0;
  if (next->targets.rows.empty()) return;
  QRL_INVARIANT(counts.response_tokens > 0 && counts.sequences > 0, "micro-batch", "global counts above 0",
                std::to_string(counts.response_tokens));
  if (!parts_->engine->has_room_for(batch.num_tokens())) parts_->finish_micro_batch();
  next->scores = parts_->score(next->rows, next->targets, is_last);
  parts_->finish_micro_batch();  // the previous one
  parts_->in_flight = std::move(next);
  if (!parts_->engine->works_beside_host()) parts_->finish_micro_batch();
}

UpdateReport Learner::update() {
  const base::ThreadsInScope threads(parts_->options.num_threads);
  parts_->require_trainable();
  parts_->finish_micro_batch();
  UpdateReport report;
  const torch::NoGradGuard no_grad;
  parts_->sums.end();
  report.metrics = parts_->statistics.reduce(parts_->world);
  const bool loss_failed = parts_->world.any(!parts_->loss_is_finite);
  parts_->statistics = {};
  parts_->loss_is_finite = true;

  const GradientNorm gradients = gradient_norm(parts_->parameters, parts_->world);
  report.non_finite = loss_failed ? "loss" : gradients.non_finite;
  report.finite = report.non_finite.empty();
  // If a micro-batch's loss failed, the rest's norm is not the update's.
  const double norm = loss_failed ? std::numeric_limits<double>::quiet_NaN() : std::sqrt(gradients.squared);
  const double clip = parts_->options.optim.grad_clip;
  report.metrics["actor/grad_norm"] = norm;
  report.metrics["actor/lr"] = lr();
  if (report.finite) {
    // 1e-6 as in torch.nn.utils.clip_grad_norm_.
    const double scale = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
    take_step(parts_->parameters, parts_->options.optim, {lr(), parts_->num_updates, scale}, *parts_->ranks);
    parts_->parameters.wait_for_device();  // so that a timer counts the device's work to the update
    parts_->published = nullptr;
    ++parts_->num_updates;
  } else {
    clear_gradients(parts_->parameters);
  }
  return report;
}

double Learner::lr() const {
  return learning_rate(parts_->options.optim, parts_->num_updates, parts_->options.total_updates);
}

std::int64_t Learner::num_updates() const { return parts_->num_updates; }

void Learner::reset_optimizer(const OptimizerOptions& optim, std::int64_t total_updates) {
  parts_->require_trainable();
  check_options(optim, total_updates);
  QRL_INVARIANT(optim.name == parts_->options.optim.name, "optimizer", "one of the same kind", "another");
  parts_->options.optim = optim;
  parts_->options.total_updates = total_updates;
  parts_->num_updates = 0;
  parts_->parameters.clear_moments();
}

bool Learner::is_sharded() const { return parts_->parameters.layout().is_sharded(); }

bool Learner::has_adapters() const { return parts_->options.lora.enabled(); }
const model::LoraConfig& Learner::lora() const { return parts_->options.lora; }

LearnerState& Learner::state() { return *state_; }
const LearnerState& Learner::state() const { return *state_; }

void Learner::publish(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device) {
  const base::ThreadsInScope threads(parts_->options.num_threads);
  const torch::NoGradGuard no_grad;
  Parameters& parameters = parts_->parameters;
  if (has_adapters()) return publish_adapters(snapshot, version, device);
  bool stays_there = device != nullptr && device->holds(snapshot) && parameters.options().torch_ops;
  if (is_sharded()) stays_there = !parts_->world.any(!stays_there);  // ranks must agree
  if (stays_there) {
    model::Snapshot::DeviceWriter writer(snapshot, *device, version);
    parameters.visit_masters(*parts_->ranks, [&](const model::WeightViews& some) { writer.write(some); });
    writer.finish();
  } else if (is_sharded() || parameters.options().torch_ops) {
    snapshot.publish(state().all_masters(), version);
  } else {
    snapshot.publish(state().masters(), version);
  }
  parts_->engine->read(parameters, snapshot, device, stays_there);
  parts_->published = &snapshot;
  parts_->published_version = version;
}

void Learner::publish_adapters(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device) {
  LearnerParts& parts = *parts_;
  const Parameters& parameters = parts.parameters;
  const bool stays_there = snapshot.lora().enabled() && parts.has_base == &snapshot && parameters.options().torch_ops &&
                           device != nullptr && device->holds(snapshot);
  if (stays_there) {
    model::Snapshot::DeviceWriter writer(snapshot, *device, version);
    parameters.visit_masters(*parts.ranks, [&](const model::WeightViews& all) { writer.write(all); });
    writer.finish();
  } else if (!snapshot.lora().enabled()) {
    QRL_INVARIANT(!parts.engine->reads_snapshot(), "publish", "a snapshot with adapters", "one without");
    snapshot.publish(state().all_masters(), version);
  } else {
    if (parts.has_base != &snapshot) snapshot.publish(parts.base, version);
    parts.has_base = &snapshot;
    if (parameters.options().torch_ops) {  // perhaps not in host memory
      snapshot.publish_adapters(model::views(model::read_adapters(parts.config, lora(), parts.trained_masters())),
                                version);
    } else {
      snapshot.publish_adapters(parameters.named().masters(), version);
    }
  }
  parts.engine->read(parts.parameters, snapshot, device, stays_there);
  parts.published = &snapshot;
  parts.published_version = version;
}

void Learner::apply_uaq(float scale) {
  QRL_REQUIRE(scale > 0 && std::isfinite(scale), "quant.uaq_scale", "above 0", std::to_string(scale));
  parts_->finish_micro_batch();
  const torch::NoGradGuard no_grad;
  std::set<std::string> gains;
  for (const model::WeightSpec& spec : model::weight_specs(parts_->config)) gains.insert(model::norm_before(spec.name));
  const auto is_gain = [&](const std::string& name) { return gains.contains(name); };
  const auto reads_norm = [&](const std::string& name) { return !model::norm_before(name).empty(); };
  parts_->parameters.named().change_masters([&](const std::string& name) { return is_gain(name) || reads_norm(name); },
                                            [&](const std::string& name, std::span<float> values) {
                                              const bool gain = is_gain(name);
                                              for (float& value : values) value = gain ? value * scale : value / scale;
                                            });
  parts_->published = nullptr;
  parts_->parameters.refresh(*parts_->ranks);
}

const model::Snapshot* Learner::published() const {
  return parts_->holds_present_weights() ? parts_->published : nullptr;
}

config::LearnerForward Learner::forward_mode() const { return parts_->options.numerics.forward; }

bool Learner::reads_in_place(const std::string& tensor) const { return parts_->engine->reads_in_place(tensor); }

void Learner::release_memory() {
  if (parts_->parameters.options().device.is_cuda()) at::getDeviceAllocator(torch::kCUDA)->emptyCache();
  else release_tensor_memory();
}

std::string torch_version() { return TORCH_VERSION; }

}  // namespace qrl::learner
