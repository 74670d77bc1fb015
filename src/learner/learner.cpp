#include "learner/learner.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <torch/version.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/thread_scope.h"
#include "base/threads.h"
#include "learner/forward_engine.h"
#include "learner/memory.h"
#include "learner/optimizer.h"
#include "learner/packed_rows.h"
#include "learner/parameters.h"
#include "learner/policy_loss.h"
#include "learner/reference.h"
#include "learner/schedule.h"
#include "learner/statistics.h"
#include "learner/torch.h"
#include "model/block.h"

namespace qrl::learner {

namespace {

void check_options(const config::OptimRecipe& optim, std::int64_t total_updates) {
  QRL_REQUIRE(optim.betas.size() == 2, "optim.betas", "two numbers", std::to_string(optim.betas.size()));
  QRL_REQUIRE(optim.lr_scheduler == config::LrScheduler::constant || total_updates > 0, "optim.lr_scheduler",
              "a total number of updates for a schedule that ends", std::to_string(total_updates));
}

ParameterOptions parameter_options(const LearnerOptions& options, const ForwardEngine& engine,
                                   const dist::Collectives& world) {
  ParameterOptions how = engine.parameters();
  how.trainable = options.trainable;
  how.muon = options.optim.name == config::OptimName::muon;
  how.lora = options.lora;
  if (options.shard_optimizer && options.trainable) {
    how.rank = world.rank();
    how.shards = world.size();
  }
  return how;
}

/// Masters as a learner begins with them.
model::WeightSource first_masters(const model::ModelConfig& config, const model::WeightSource& initial,
                                  const LearnerOptions& options) {
  if (!options.lora.enabled()) return initial;
  QRL_INVARIANT(options.optim.name == config::OptimName::adamw && !options.shard_optimizer, "adapters",
                "AdamW on every rank", "another optimizer, or shards");
  model::check_lora(config, options.lora);
  const bool is_given = options.lora_initial.has_value();
  const model::WeightSource adapters =
      is_given ? *options.lora_initial : model::new_adapters(config, options.lora, options.lora_seed);
  return model::WeightSource(
      [initial, adapters, is_given, lora = options.lora](const model::WeightSpec& spec, float* to) {
        const bool is_trained =
            model::is_lora_name(spec.name) || (lora.train_norms && spec.kind == model::WeightKind::norm);
        // New adapters begin with the base's gains.
        if (is_trained && (is_given || model::is_lora_name(spec.name))) adapters.read(spec, to);
        else initial.read(spec, to);
      });
}

/// The promise of a bitwise learner.
void require_same_bits(const Tensor& log_probs_M, const std::vector<std::int64_t>& rows,
                       const std::vector<float>& sampler_logprobs) {
  std::int64_t differ = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float sampled = sampler_logprobs[static_cast<std::size_t>(rows[i])];
    differ +=
        std::bit_cast<std::uint32_t>(log_probs_M.data_ptr<float>()[i]) == std::bit_cast<std::uint32_t>(sampled) ? 0 : 1;
  }
  QRL_INVARIANT(differ == 0, "rollout.bitwise", "the sampler's log-probs, bit for bit",
                std::to_string(differ) + " of " + std::to_string(rows.size()) + " tokens differ");
}

}  // namespace

struct Learner::State {
  State(const model::ModelConfig& config_in, const model::WeightSource& initial, const LearnerOptions& options_in,
        dist::Collectives& world_in, std::unique_ptr<ForwardEngine> engine_in)
      : config(config_in),
        options(options_in),
        world(world_in),
        base(initial),
        engine(std::move(engine_in)),
        parameters(config, first_masters(config, initial, options), parameter_options(options, *engine, world)),
        ranks(ranks_on(parameters.device(), world)),
        sums(parameters, *ranks),
        packer(config, options.logprob_chunk_tokens) {
    parameters.refresh(*ranks);
  }
  void require_trainable() const {
    QRL_INVARIANT(parameters.trainable(), "learner", "a trainable one", "one made for scores alone");
  }
  /// With masters and moments that were written from outside.
  void restart(std::int64_t updates);
  bool holds_present_weights() const { return published != nullptr && published->version() == published_version; }
  /// Log-probs and entropies of the targets, differentiable unless autograd is off. rows and targets must outlive the
  /// backward pass. is_last: of the mini-batch's micro-batches.
  TargetScores score(const PackedRows& rows, const TargetRows& targets, bool is_last,
                     const PolicyWeights* policy = nullptr);

  model::ModelConfig config;
  LearnerOptions options;
  dist::Collectives& world;
  model::WeightSource base;  // of adapters
  std::unique_ptr<ForwardEngine> engine;
  Parameters parameters;
  std::unique_ptr<RankTensors> ranks;
  GradientSums sums;
  MicroBatchPacker packer;
  std::int64_t num_updates = 0;
  const model::Snapshot* published = nullptr;  // null: not since the masters last changed
  std::int64_t published_version = -1;
  bool keeps_reference = false;
  std::optional<model::WeightSource> reference_start;
  std::unique_ptr<ReferencePolicy> reference;
  const model::Snapshot* has_base = nullptr;  // the snapshot that `base` was published into
  Statistics statistics;
  bool loss_is_finite = true;
};

void Learner::State::restart(std::int64_t updates) {
  num_updates = updates;
  published = nullptr;
  clear_gradients(parameters);
  statistics = {};
  loss_is_finite = true;
  parameters.refresh(*ranks);
}

TargetScores Learner::State::score(const PackedRows& rows, const TargetRows& targets, bool is_last,
                                   const PolicyWeights* policy) {
  const bool reads_snapshot = engine->reads_snapshot();
  QRL_INVARIANT(!reads_snapshot || holds_present_weights(), "learner", "a published snapshot of the present weights",
                "one of other weights, or none", "publish after each update");
  ForwardTask task{rows, targets, {}, policy};
  if (is_last) task.layer_done = sums.from_backward();
  return engine->score(parameters, reads_snapshot ? published : nullptr, task);
}

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
  state_ = std::make_unique<State>(config, initial, options, world, std::move(engine));
}

Learner::~Learner() {
  state_.reset();
  release_tensor_memory();
}

TokenScores Learner::score(const types::MicroBatch& batch, const ops::SampleParams& sample_params) {
  return score_by(nullptr, batch, sample_params);
}

void Learner::keep_reference(const std::optional<model::WeightSource>& start) {
  state_->keeps_reference = true;
  state_->reference_start = start;
  state_->reference.reset();
}

bool Learner::has_reference() const { return state_->keeps_reference; }

TokenScores Learner::score_reference(const types::MicroBatch& batch, const ops::SampleParams& sample_params) {
  State& state = *state_;
  QRL_INVARIANT(state.keeps_reference, "learner", "a reference", "none");
  if (state.published != nullptr) state.engine->prepare(state.parameters, *state.published);
  if (state.reference == nullptr) {  // by now a snapshot has been published, whose formats it takes
    const torch::NoGradGuard no_grad;
    state.reference = std::make_unique<ReferencePolicy>(state.config, state.options.lora, state.parameters, state.base,
                                                        state.reference_start);
  }
  return score_by(&state.reference->policy(), batch, sample_params);
}

TokenScores Learner::score_by(const PolicyWeights* policy, const types::MicroBatch& batch,
                              const ops::SampleParams& sample_params) {
  const base::ThreadsInScope threads(state_->options.num_threads);
  const torch::NoGradGuard no_grad;
  const PackedRows rows = state_->packer.rows(batch);
  const TargetRows targets = state_->packer.targets(batch, sample_params);
  TokenScores scores{std::vector<float>(batch.tokens.size()), std::vector<float>(batch.tokens.size())};
  if (targets.rows.empty()) return scores;
  const TargetScores counted_scores = state_->score(rows, targets, false, policy);
  for (std::size_t i = 0; i < targets.rows.size(); ++i) {
    const auto at = static_cast<std::size_t>(targets.rows[i]);
    scores.logprobs[at] = counted_scores.log_probs_M.data_ptr<float>()[i];
    scores.entropy[at] = counted_scores.entropy_M.data_ptr<float>()[i];
  }
  return scores;
}

void Learner::accumulate(const types::MicroBatch& batch, const types::GlobalCounts& counts, const LossOptions& loss,
                         const ops::SampleParams& sample_params, bool is_last) {
  const base::ThreadsInScope threads(state_->options.num_threads);
  state_->require_trainable();
  QRL_INVARIANT(!state_->sums.begun(), "micro-batch", "an update after the last one", "another");
  const PackedRows rows = state_->packer.rows(batch);
  const TargetRows targets = state_->packer.targets(batch, sample_params);
  if (targets.rows.empty()) return;
  QRL_INVARIANT(counts.response_tokens > 0 && counts.sequences > 0, "micro-batch", "global counts above 0",
                std::to_string(counts.response_tokens));
  const TargetScores scores = state_->score(rows, targets, is_last);
  if (state_->engine->is_bitwise() && loss.at_sampling_weights)
    require_same_bits(scores.log_probs_M, targets.rows, batch.sampler_logprobs);
  Tensor total;
  if (loss.kind == LossKind::policy) {
    total = policy_loss(batch, targets.rows, scores, counts, loss, state_->statistics);
  } else {
    total = -scores.log_probs_M.to(torch::kFloat64).sum() / static_cast<double>(counts.response_tokens);
    state_->statistics.add_share("actor/sft_loss", total.item<double>());
  }
  if (!std::isfinite(total.item<double>())) {
    state_->loss_is_finite = false;
    return;
  }
  total.backward();
}

UpdateReport Learner::update() {
  const base::ThreadsInScope threads(state_->options.num_threads);
  state_->require_trainable();
  UpdateReport report;
  const torch::NoGradGuard no_grad;
  state_->sums.end();
  report.metrics = state_->statistics.reduce(state_->world);
  const bool loss_failed = state_->world.any(!state_->loss_is_finite);
  state_->statistics = {};
  state_->loss_is_finite = true;

  const GradientNorm gradients = gradient_norm(state_->parameters, state_->world);
  report.non_finite = loss_failed ? "loss" : gradients.non_finite;
  report.finite = report.non_finite.empty();
  // Without a micro-batch whose loss failed the rest has a norm, which is not the update's.
  const double norm = loss_failed ? std::numeric_limits<double>::quiet_NaN() : std::sqrt(gradients.squared);
  const double clip = state_->options.optim.grad_clip;
  report.metrics["actor/grad_norm"] = norm;
  report.metrics["actor/lr"] = lr();
  if (report.finite) {
    // 1e-6 as in torch.nn.utils.clip_grad_norm_.
    const double scale = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
    take_step(state_->parameters, state_->options.optim, {lr(), state_->num_updates, scale}, *state_->ranks);
    state_->parameters.wait_for_device();  // so that whoever takes the time has the step's, and what follows its own
    state_->published = nullptr;
    ++state_->num_updates;
  } else {
    clear_gradients(state_->parameters);
  }
  return report;
}

double Learner::lr() const {
  return learning_rate(state_->options.optim, state_->num_updates, state_->options.total_updates);
}

std::int64_t Learner::num_updates() const { return state_->num_updates; }

void Learner::reset_optimizer(const config::OptimRecipe& optim, std::int64_t total_updates) {
  state_->require_trainable();
  check_options(optim, total_updates);
  QRL_INVARIANT(optim.name == state_->options.optim.name, "optimizer", "one of the same kind", "another");
  state_->options.optim = optim;
  state_->options.total_updates = total_updates;
  state_->num_updates = 0;
  state_->parameters.clear_moments();
}

bool Learner::is_sharded() const { return state_->parameters.is_sharded(); }

model::WeightViews Learner::masters() const { return state_->parameters.named_masters(); }

model::WeightViews Learner::masters_in_place() const { return state_->parameters.masters_in_place(); }
model::WeightViews Learner::optimizer_state_in_place() const { return state_->parameters.moments_in_place(); }
state::StagedRead Learner::staged_read() const { return state_->parameters.staged_read(); }
base::Buffer Learner::master(const std::string& name) const {
  if (!has_adapters()) return state_->parameters.master(name);
  for (const model::WeightSpec& spec : model::weight_specs(state_->config)) {
    if (spec.name != name) continue;
    base::Buffer values(base::DType::f32, spec.shape);
    state_->base.read(spec, values.as<float>());
    return values;
  }
  return {};
}

bool Learner::has_adapters() const { return state_->options.lora.enabled(); }
const model::LoraConfig& Learner::lora() const { return state_->options.lora; }

model::WeightSource Learner::own_masters() const {
  return model::WeightSource([state = state_.get()](const model::WeightSpec& spec, float* to) {
    state->parameters.read_master(spec, to, state->world);
  });
}

model::WeightSource Learner::all_masters() const {
  return has_adapters() ? model::merged_weights(state_->config, state_->base, lora(), own_masters()) : own_masters();
}

model::WeightViews Learner::optimizer_state() const { return state_->parameters.named_moments(); }

void Learner::free_optimizer_state() { state_->parameters.free_moments(); }

void Learner::restore(const model::WeightViews& masters, const model::WeightViews& optimizer_state,
                      std::int64_t num_updates) {
  const torch::NoGradGuard no_grad;
  state_->parameters.restore_masters(masters);
  state_->parameters.restore_moments(optimizer_state);
  state_->restart(num_updates);
}

void Learner::restore(const std::function<void(const std::string& name, const base::View& to)>& fill,
                      std::int64_t num_updates) {
  const torch::NoGradGuard no_grad;
  state_->parameters.fill(fill);
  state_->restart(num_updates);
}

void Learner::publish(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device) {
  const base::ThreadsInScope threads(state_->options.num_threads);
  const torch::NoGradGuard no_grad;
  Parameters& parameters = state_->parameters;
  if (has_adapters()) return publish_adapters(snapshot, version, device);
  bool stays_there = device != nullptr && device->holds(snapshot) && parameters.torch_ops();
  if (is_sharded()) stays_there = !state_->world.any(!stays_there);  // all go the same way
  if (stays_there) {
    model::Snapshot::DeviceWriter writer(snapshot, *device, version);
    parameters.visit_masters(*state_->ranks, [&](const model::WeightViews& some) { writer.write(some); });
    writer.finish();
  } else if (is_sharded() || parameters.torch_ops()) {
    snapshot.publish(all_masters(), version);
  } else {
    snapshot.publish(masters(), version);
  }
  state_->engine->read(parameters, snapshot, device, stays_there);
  state_->published = &snapshot;
  state_->published_version = version;
}

void Learner::publish_adapters(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device) {
  State& state = *state_;
  const Parameters& parameters = state.parameters;
  const bool stays_there = snapshot.lora().enabled() && state.has_base == &snapshot && parameters.torch_ops() &&
                           device != nullptr && device->holds(snapshot);
  if (stays_there) {
    model::Snapshot::DeviceWriter writer(snapshot, *device, version);
    parameters.visit_masters(*state.ranks, [&](const model::WeightViews& all) { writer.write(all); });
    writer.finish();
  } else if (!snapshot.lora().enabled()) {
    QRL_INVARIANT(!state.engine->reads_snapshot(), "publish", "a snapshot with adapters", "one without");
    snapshot.publish(all_masters(), version);
  } else {
    if (state.has_base != &snapshot) snapshot.publish(state.base, version);
    state.has_base = &snapshot;
    if (parameters.torch_ops()) {  // perhaps not in host memory
      snapshot.publish_adapters(model::views(model::read_adapters(state.config, lora(), own_masters())), version);
    } else {
      snapshot.publish_adapters(parameters.masters_in_place(), version);
    }
  }
  state.engine->read(state.parameters, snapshot, device, stays_there);
  state.published = &snapshot;
  state.published_version = version;
}

void Learner::apply_uaq(float scale) {
  QRL_REQUIRE(scale > 0 && std::isfinite(scale), "quant.uaq_scale", "above 0", std::to_string(scale));
  const torch::NoGradGuard no_grad;
  std::set<std::string> gains;
  for (const model::WeightSpec& spec : model::weight_specs(state_->config)) gains.insert(model::norm_before(spec.name));
  const auto is_gain = [&](const std::string& name) { return gains.contains(name); };
  const auto reads_norm = [&](const std::string& name) { return !model::norm_before(name).empty(); };
  state_->parameters.change_masters([&](const std::string& name) { return is_gain(name) || reads_norm(name); },
                                    [&](const std::string& name, std::span<float> values) {
                                      const bool gain = is_gain(name);
                                      for (float& value : values) value = gain ? value * scale : value / scale;
                                    });
  state_->published = nullptr;
  state_->parameters.refresh(*state_->ranks);
}

const model::Snapshot* Learner::published() const {
  return state_->holds_present_weights() ? state_->published : nullptr;
}

config::LearnerForward Learner::forward_mode() const { return state_->options.numerics.forward; }

bool Learner::reads_in_place(const std::string& tensor) const { return state_->engine->reads_in_place(tensor); }

void Learner::release_memory() {
  if (state_->parameters.device().is_cuda()) at::getDeviceAllocator(torch::kCUDA)->emptyCache();
}

model::WeightViews Learner::gradients() const {
  state_->require_trainable();
  return state_->parameters.named_gradients();
}

std::string torch_version() { return TORCH_VERSION; }

}  // namespace qrl::learner
