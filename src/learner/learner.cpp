#include "learner/learner.h"

#include <ATen/DeviceAccelerator.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/threads.h"
#include "cuda/train/training.h"
#include "learner/cuda_library.h"
#include "learner/device_forward.h"
#include "learner/device_logprob.h"
#include "learner/device_sampled.h"
#include "learner/logprob.h"
#include "learner/memory.h"
#include "learner/optimizer.h"
#include "learner/parameters.h"
#include "learner/policy.h"
#include "learner/policy_loss.h"
#include "learner/schedule.h"
#include "learner/statistics.h"
#include "ops/transformer.h"

namespace qrl::learner {

namespace {

bool uses_torch_ops(const LearnerOptions& options) { return options.torch_ops || options.device == base::Device::cuda; }

/// Its linear layers are the decoder's own matmuls on the device.
bool multiplies_on_device(const LearnerOptions& options) {
  return uses_torch_ops(options) && options.forward == config::LearnerForward::low_bit;
}

/// Before anything is allocated.
void prepare(const LearnerOptions& options) {
  QRL_REQUIRE(!uses_torch_ops(options) || options.backward != config::LearnerBackward::int8, "trainer.device cuda",
              "quant.learner.backward model_dtype or fp8_e4m3", "int8", "use trainer.device cpu");
  at::set_num_threads(base::num_threads());
  keep_tensor_memory();
}

void check_options(const config::OptimRecipe& optim, std::int64_t total_updates) {
  QRL_REQUIRE(optim.betas.size() == 2, "optim.betas", "two numbers", std::to_string(optim.betas.size()));
  QRL_REQUIRE(optim.lr_scheduler == config::LrScheduler::constant || total_updates > 0, "optim.lr_scheduler",
              "a total number of updates for a schedule that ends", std::to_string(total_updates));
}

void check_batch(const types::MicroBatch& batch, const model::ModelConfig& config) {
  const auto n = batch.tokens.size();
  const auto& starts = batch.sequence_starts;
  QRL_INVARIANT(starts.size() >= 2 && starts.front() == 0 && starts.back() == batch.num_tokens() &&
                    std::is_sorted(starts.begin(), starts.end()),
                "micro-batch", "ascending sequence_starts from 0 to N", std::to_string(starts.size()) + " entries");
  QRL_INVARIANT(batch.continues_prefix.empty() ||
                    (batch.continues_prefix.size() + 1 == starts.size() && batch.continues_prefix.front() == 0),
                "micro-batch", "continues_prefix of S entries, the first 0",
                std::to_string(batch.continues_prefix.size()) + " entries");
  QRL_INVARIANT(batch.targets.size() == n && batch.loss_mask.size() == n, "micro-batch",
                "targets and loss_mask of N entries", std::to_string(batch.targets.size()));
  const auto outside = [&](types::TokenId token) { return token < 0 || token >= config.vocab_size; };
  QRL_REQUIRE(std::none_of(batch.tokens.begin(), batch.tokens.end(), outside) &&
                  std::none_of(batch.targets.begin(), batch.targets.end(), outside),
              "micro-batch", "token ids below the vocabulary's " + std::to_string(config.vocab_size), "one outside");
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
        dist::Collectives& world_in)
      : config(config_in),
        options(options_in),
        world(world_in),
        parameters(config, initial, parameter_options(options, world)),
        ranks(ranks_on(parameters.device(), world)),
        sums(parameters, *ranks) {
    if (options.device == base::Device::cuda) own_kernels = cuda::make_training_kernels(parameters.device().index());
    kernels = own_kernels != nullptr ? own_kernels.get() : options.kernels;
    parameters.refresh(*ranks);
  }
  static ParameterOptions parameter_options(const LearnerOptions& options, const dist::Collectives& world) {
    ParameterOptions how;
    how.compute = options.compute == config::ComputeDType::bf16 ? torch::kBFloat16 : torch::kFloat32;
    how.trainable = options.trainable;
    how.f32_lm_head = options.f32_lm_head;
    how.muon = options.optim.name == config::OptimName::muon;
    if (options.device == base::Device::cuda) {
      const int number = load_cuda_library(world.local_rank());
      how.device = torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(number));
    }
    how.torch_ops = uses_torch_ops(options);
    how.staging_bytes = options.staging_bytes;
    const bool of_masters = options.forward == config::LearnerForward::bf16;  // else the layers are of the snapshot's
    how.fake_quant = how.torch_ops && options.forward == config::LearnerForward::fake_quant;
    how.reads_layers = of_masters || how.fake_quant;
    how.reads_tables = !multiplies_on_device(options);
    how.packs_head = of_masters && !how.torch_ops;
    if (options.shard_optimizer && options.trainable) {
      how.rank = world.rank();
      how.shards = world.size();
    }
    return how;
  }
  void require_trainable() const {
    QRL_INVARIANT(parameters.trainable(), "learner", "a trainable one", "one made for scores alone");
  }

  /// With masters and moments that were written from outside.
  void restart(std::int64_t updates) {
    num_updates = updates;
    published = nullptr;
    clear_gradients(parameters);
    statistics = {};
    loss_is_finite = true;
    parameters.refresh(*ranks);
  }

  PackedRows pack(const types::MicroBatch& batch);
  TargetRows targets_of(const types::MicroBatch& batch, const ops::SampleParams& sample_params) const;
  /// Null: attention over packed rows, or the decoder's own.
  std::unique_ptr<const PageLayout> page_layout(const PackedRows& rows) const {
    return options.bitwise && !parameters.torch_ops() ? std::make_unique<const PageLayout>(rows) : nullptr;
  }
  bool quantized() const { return options.forward != config::LearnerForward::bf16; }
  /// What it computes with is there.
  ForwardOptions prepare_forward(const PageLayout* pages) {
    ForwardOptions how;
    how.compute = parameters.compute();
    how.lm_head_dtype = parameters.policy().lm_head_dtype;
    how.activation_checkpointing = options.activation_checkpointing;
    how.forward = options.forward;
    how.backward = options.backward;
    how.pages = pages;
    how.kv_format = options.kv_format;
    how.kernels = kernels;
    if (quantized()) {
      QRL_INVARIANT(published != nullptr && published->version() == published_version, "learner",
                    "a published snapshot of the present weights", "one of other weights, or none",
                    "publish after each update");
      how.snapshot = published;
    }
    if (multiplies_on_device(options)) {
      device->bring(*published);
      if (!tables_read) parameters.read_tables(*device);
      tables_read = true;
      how.device = device;
    }
    return how;
  }
  /// Log-probs and entropies of the targets, differentiable unless autograd is off. rows, pages and targets must
  /// outlive the backward pass. is_last: of the mini-batch's micro-batches.
  TargetScores score(const PackedRows& rows, const PageLayout* pages, const TargetRows& targets, bool is_last = false) {
    ForwardOptions how = prepare_forward(pages);
    if (is_last) how.layer_done = sums.from_backward();
    const PolicyWeights& policy = parameters.policy();
    if (!parameters.torch_ops()) {
      return target_log_probs(hidden_states(policy, config, rows, how), policy.lm_head,
                              quantized() ? published->lm_head() : policy.head, targets, options.bitwise);
    }
    const torch::Device where = parameters.device();
    const bool by_decoder = options.bitwise && multiplies_on_device(options);
    SampledPass sampled;
    if (by_decoder) {
      const bool has_backward = torch::GradMode::is_enabled();
      sampled = sampled_pass(*device, config, rows, targets, where, has_backward);
      if (!has_backward) return sampled.scores;
      how.after_layer = &sampled.after_layer;
    }
    const Tensor hidden_ND = device_hidden_states(policy, config, place_rows(rows, config.head_dim, where), how);
    return device_target_log_probs(hidden_ND, policy.lm_head, targets, kernels, by_decoder ? &sampled.scores : nullptr);
  }

  model::ModelConfig config;
  LearnerOptions options;
  dist::Collectives& world;
  Parameters parameters;
  std::unique_ptr<RankTensors> ranks;
  GradientSums sums;
  base::Buffer rope_table;
  std::int64_t num_updates = 0;
  const model::Snapshot* published = nullptr;  // null: not since the masters last changed
  std::int64_t published_version = -1;
  std::unique_ptr<const cuda::TrainingKernels> own_kernels;  // a GPU's
  const cuda::TrainingKernels* kernels = nullptr;
  model::DeviceWeights* device = nullptr;  // of what was published, with low_bit
  bool tables_read = false;                // there, since then
  Statistics statistics;
  bool loss_is_finite = true;
};

PackedRows Learner::State::pack(const types::MicroBatch& batch) {
  check_batch(batch, config);
  PackedRows rows;
  rows.tokens = batch.tokens;
  rows.sequence_starts = batch.sequence_starts;
  rows.continues_prefix = batch.continues_prefix;
  rows.positions.resize(batch.tokens.size());
  std::int32_t longest = 0, prefix_length = 0;
  for (std::int64_t s = 0; s < batch.num_sequences(); ++s) {
    const std::int32_t begin = batch.sequence_starts[static_cast<std::size_t>(s)];
    const std::int32_t end = batch.sequence_starts[static_cast<std::size_t>(s + 1)];
    if (!batch.continues(s)) prefix_length = end - begin;
    const std::int32_t first_position = batch.continues(s) ? prefix_length : 0;
    longest = std::max(longest, first_position + end - begin);
    for (std::int32_t t = begin; t < end; ++t) rows.positions[static_cast<std::size_t>(t)] = first_position + t - begin;
  }
  QRL_REQUIRE(longest <= config.max_position_embeddings, "micro-batch",
              "sequences of at most max_position_embeddings = " + std::to_string(config.max_position_embeddings),
              std::to_string(longest) + " tokens");
  if (rope_table.empty() || rope_table.shape()[0] < longest) {
    rope_table = model::make_rope_table(config, std::min<std::int64_t>(2 * longest, config.max_position_embeddings));
  }
  rows.rope_table = rope_table.as<float>();
  return rows;
}

TargetRows Learner::State::targets_of(const types::MicroBatch& batch, const ops::SampleParams& sample_params) const {
  QRL_REQUIRE(sample_params.temperature > 0, "temperature", "above 0 (log-probs of a greedy choice teach nothing)",
              std::to_string(sample_params.temperature));
  TargetRows targets;
  targets.sample_params = sample_params;
  targets.chunk_tokens = options.logprob_chunk_tokens;
  for (std::size_t t = 0; t < batch.loss_mask.size(); ++t) {
    if (batch.loss_mask[t] == 0) continue;
    targets.rows.push_back(static_cast<std::int64_t>(t));
    targets.targets.push_back(batch.targets[t]);
  }
  return targets;
}

Learner::Learner(const model::ModelConfig& config, const model::WeightSource& initial, const LearnerOptions& options,
                 dist::Collectives& world) {
  check_options(options.optim, options.total_updates);
  QRL_REQUIRE(options.logprob_chunk_tokens >= 1, "actor.logprob_chunk_tokens", "1 or more",
              std::to_string(options.logprob_chunk_tokens));
  prepare(options);
  const torch::NoGradGuard no_grad;
  state_ = std::make_unique<State>(config, initial, options, world);
}

Learner::~Learner() {
  state_.reset();
  release_tensor_memory();
}

TokenScores Learner::score(const types::MicroBatch& batch, const ops::SampleParams& sample_params) {
  const torch::NoGradGuard no_grad;
  const PackedRows rows = state_->pack(batch);
  const TargetRows targets = state_->targets_of(batch, sample_params);
  TokenScores scores{std::vector<float>(batch.tokens.size()), std::vector<float>(batch.tokens.size())};
  if (targets.rows.empty()) return scores;
  const auto pages = state_->page_layout(rows);
  const TargetScores counted_scores = state_->score(rows, pages.get(), targets);
  for (std::size_t i = 0; i < targets.rows.size(); ++i) {
    const auto at = static_cast<std::size_t>(targets.rows[i]);
    scores.logprobs[at] = counted_scores.log_probs_M.data_ptr<float>()[i];
    scores.entropy[at] = counted_scores.entropy_M.data_ptr<float>()[i];
  }
  return scores;
}

void Learner::accumulate(const types::MicroBatch& batch, const types::GlobalCounts& counts, const LossOptions& loss,
                         const ops::SampleParams& sample_params, bool is_last) {
  state_->require_trainable();
  QRL_INVARIANT(!state_->sums.begun(), "micro-batch", "an update after the last one", "another");
  const PackedRows rows = state_->pack(batch);
  const TargetRows targets = state_->targets_of(batch, sample_params);
  if (targets.rows.empty()) return;
  QRL_INVARIANT(counts.response_tokens > 0 && counts.sequences > 0, "micro-batch", "global counts above 0",
                std::to_string(counts.response_tokens));
  const auto pages = state_->page_layout(rows);
  const TargetScores scores = state_->score(rows, pages.get(), targets, is_last);
  if (state_->options.bitwise && loss.at_sampling_weights)
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
  const double norm = std::sqrt(gradients.squared), clip = state_->options.optim.grad_clip;
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
base::Buffer Learner::master(const std::string& name) const { return state_->parameters.master(name); }

model::WeightSource Learner::all_masters() const {
  return model::WeightSource([state = state_.get()](const model::WeightSpec& spec, float* to) {
    state->parameters.read_master(spec, to, state->world);
  });
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
  const torch::NoGradGuard no_grad;
  QRL_INVARIANT(device != nullptr || !multiplies_on_device(state_->options), "publish",
                "the device's weights beside low_bit there", "none");
  Parameters& parameters = state_->parameters;
  bool stays_there = device != nullptr && device->holds(snapshot) && parameters.torch_ops();
  if (is_sharded()) stays_there = !state_->world.any(!stays_there);  // all go the same way
  if (stays_there) {
    model::Snapshot::DeviceWriter writer(snapshot, *device, version);
    parameters.visit_masters(*state_->ranks, [&](const model::WeightViews& some) { writer.write(some); });
    writer.finish();
    if (parameters.fake_quant()) parameters.read_quantized(*device);
  } else if (is_sharded() || parameters.torch_ops()) {
    snapshot.publish(all_masters(), version);
  } else {
    snapshot.publish(masters(), version);
  }
  if (!stays_there && parameters.fake_quant()) parameters.read_quantized(snapshot);
  state_->published = &snapshot;
  state_->published_version = version;
  state_->device = device;
  state_->tables_read = false;
}

void Learner::apply_uaq(float scale) {
  QRL_REQUIRE(scale > 0 && std::isfinite(scale), "quant.uaq_scale", "above 0", std::to_string(scale));
  const torch::NoGradGuard no_grad;
  const auto ends_with_any = [](const std::string& name, std::initializer_list<std::string_view> ends) {
    return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
  };
  const auto is_gain = [&](const std::string& name) {
    return ends_with_any(name, {"input_layernorm.weight", "post_attention_layernorm.weight"});
  };
  const auto is_fed = [&](const std::string& name) {
    return ends_with_any(name,
                         {"q_proj.weight", "k_proj.weight", "v_proj.weight", "gate_proj.weight", "up_proj.weight"});
  };
  state_->parameters.change_masters([&](const std::string& name) { return is_gain(name) || is_fed(name); },
                                    [&](const std::string& name, std::span<float> values) {
                                      const bool gain = is_gain(name);
                                      for (float& value : values) value = gain ? value * scale : value / scale;
                                    });
  state_->published = nullptr;
  state_->parameters.refresh(*state_->ranks);
}

const model::Snapshot* Learner::published() const {
  const State& state = *state_;
  const bool holds = state.published != nullptr && state.published->version() == state.published_version;
  return holds ? state.published : nullptr;
}

config::LearnerForward Learner::forward_mode() const { return state_->options.forward; }

bool Learner::reads_in_place(const std::string& tensor) const {
  if (state_->options.forward == config::LearnerForward::bf16 || state_->parameters.fake_quant()) return false;
  const bool is_copied_head =
      multiplies_on_device(state_->options) && state_->parameters.policy().lm_head_dtype == torch::kFloat32;
  return tensor != "lm_head" || !is_copied_head;
}

void Learner::release_memory() {
  if (state_->options.device == base::Device::cuda) at::getDeviceAllocator(torch::kCUDA)->emptyCache();
}

model::WeightViews Learner::gradients() const {
  state_->require_trainable();
  return state_->parameters.named_gradients();
}

std::string torch_version() { return TORCH_VERSION; }

}  // namespace qrl::learner
