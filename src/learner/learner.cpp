#include "learner/learner.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/threads.h"
#include "learner/engine/forward_engine.h"
#include "learner/engine/publisher.h"
#include "learner/forward/packed_rows.h"
#include "learner/tensors/memory.h"
#include "learner/tensors/torch.h"
#include "learner/update/gradient_accumulator.h"
#include "learner/weights/trainable_weights.h"
#include "model/block.h"

namespace qrl::learner {

struct Learner::Reference {
  std::optional<model::WeightSource> start;
  std::unique_ptr<ReferencePolicy> policy;
};

Learner::Learner(const model::ModelConfig& config, const model::WeightSource& initial, const LearnerOptions& options,
                 dist::Collectives& world)
    : Learner(config, initial, options, world, choose_engine(config, options, world)) {}

Learner::Learner(const model::ModelConfig& config, const model::WeightSource& initial, const LearnerOptions& options,
                 dist::Collectives& world, std::unique_ptr<ForwardEngine> engine)
    : num_threads_(options.num_threads),
      forward_mode_(options.numerics.forward),
      engine_(std::move(engine)),
      optimizer_(std::make_unique<Optimizer>(options.optim, options.total_updates)) {
  QRL_REQUIRE(options.logprob_chunk_tokens >= 1, "actor.logprob_chunk_tokens", "1 or more",
              std::to_string(options.logprob_chunk_tokens));
  const base::ThreadsInScope threads(options.num_threads);
  at::set_num_threads(base::num_threads());
  keep_tensor_memory();
  const torch::NoGradGuard no_grad;
  weights_ = std::make_unique<TrainableWeights>(config, initial, options, engine_->parameters(), world);
  publisher_ = std::make_unique<Publisher>(*weights_, *engine_);
  packer_ = std::make_unique<MicroBatchPacker>(config, options.logprob_chunk_tokens);
  accumulator_ = std::make_unique<GradientAccumulator>(*weights_, *engine_, *publisher_, *packer_);
  state_ = std::make_unique<LearnerState>(*weights_, *accumulator_, *optimizer_, *publisher_);
  weights_->refresh();
}

Learner::~Learner() {
  state_.reset();
  reference_.reset();
  accumulator_.reset();
  packer_.reset();
  publisher_.reset();
  weights_.reset();
  engine_.reset();
  release_tensor_memory();
}

TokenScores Learner::score(const types::MicroBatch& batch, const ops::SampleParams& sample_params) {
  return score_by(nullptr, batch, sample_params);
}

void Learner::keep_reference(const std::optional<model::WeightSource>& start) {
  reference_ = std::make_unique<Reference>(Reference{start, nullptr});
}

bool Learner::has_reference() const { return reference_ != nullptr; }

TokenScores Learner::score_reference(const types::MicroBatch& batch, const ops::SampleParams& sample_params) {
  QRL_INVARIANT(has_reference(), "learner", "a reference", "none");
  if (const model::Snapshot* snapshot = publisher_->present()) engine_->prepare(weights_->parameters(), *snapshot);
  if (reference_->policy == nullptr) {  // made here, because the published snapshot determines the adapters' formats
    const torch::NoGradGuard no_grad;
    reference_->policy = std::make_unique<ReferencePolicy>(weights_->config(), lora(), weights_->parameters(),
                                                           weights_->base(), reference_->start);
  }
  return score_by(&reference_->policy->policy(), batch, sample_params);
}

TokenScores Learner::score_by(const PolicyWeights* policy, const types::MicroBatch& batch,
                              const ops::SampleParams& sample_params) {
  const base::ThreadsInScope threads(num_threads_);
  accumulator_->finish();
  const torch::NoGradGuard no_grad;
  const PackedRows rows = packer_->rows(batch);
  const TargetRows targets = packer_->targets(batch, sample_params);
  TokenScores scores{std::vector<float>(batch.tokens.size()), std::vector<float>(batch.tokens.size())};
  if (targets.rows.empty()) return scores;
  const TargetScores counted_scores =
      engine_->score(weights_->parameters(), publisher_->for_forward_pass(), {rows, targets, {}, policy});
  counted_scores.wait();
  for (std::size_t i = 0; i < targets.rows.size(); ++i) {
    const auto at = static_cast<std::size_t>(targets.rows[i]);
    scores.logprobs[at] = counted_scores.log_probs_M.data_ptr<float>()[i];
    scores.entropy[at] = counted_scores.entropy_M.data_ptr<float>()[i];
  }
  if (rows.routes != nullptr) scores.routes = used_routes(*rows.routes);
  return scores;
}

void Learner::accumulate(const types::MicroBatch& batch, const types::GlobalCounts& counts, const LossOptions& loss,
                         const ops::SampleParams& sample_params, bool is_last) {
  const base::ThreadsInScope threads(num_threads_);
  weights_->require_trainable();
  accumulator_->add(batch, counts, loss, sample_params, is_last);
}

UpdateReport Learner::update() {
  const base::ThreadsInScope threads(num_threads_);
  weights_->require_trainable();
  auto [metrics, has_finite_losses] = accumulator_->end();
  const torch::NoGradGuard no_grad;
  Parameters& parameters = weights_->parameters();
  const GradientNorm gradients = gradient_norm(parameters, weights_->world());
  UpdateReport report;
  report.non_finite = has_finite_losses ? gradients.non_finite : "loss";
  report.finite = report.non_finite.empty();
  // If a micro-batch's loss is not finite, its gradients are missing, and the norm is meaningless.
  const double norm = has_finite_losses ? std::sqrt(gradients.squared) : std::numeric_limits<double>::quiet_NaN();
  report.metrics = std::move(metrics);
  report.metrics["actor/grad_norm"] = norm;
  report.metrics["actor/lr"] = lr();
  if (report.finite) {
    optimizer_->step(parameters, norm, weights_->ranks());
    publisher_->masters_changed();
  } else {
    clear_gradients(parameters);
  }
  return report;
}

double Learner::lr() const { return optimizer_->lr(); }

std::int64_t Learner::num_updates() const { return optimizer_->num_updates(); }

void Learner::reset_optimizer(const OptimizerOptions& optim, std::int64_t total_updates) {
  weights_->require_trainable();
  optimizer_->reset(optim, total_updates);
  weights_->parameters().clear_moments();
}

bool Learner::is_sharded() const { return weights_->is_sharded(); }

bool Learner::has_adapters() const { return lora().enabled(); }
const model::LoraConfig& Learner::lora() const { return weights_->lora(); }

LearnerState& Learner::state() { return *state_; }
const LearnerState& Learner::state() const { return *state_; }

void Learner::publish(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device) {
  const base::ThreadsInScope threads(num_threads_);
  const torch::NoGradGuard no_grad;
  publisher_->publish(snapshot, version, device);
}

void Learner::apply_uaq(float scale) {
  QRL_REQUIRE(scale > 0 && std::isfinite(scale), "quant.uaq_scale", "above 0", std::to_string(scale));
  const model::ModelConfig& config = weights_->config();
  QRL_REQUIRE(model::has_norms_before(config), "quant.uaq_scale", "1 for a model without norms before its matrices",
              std::to_string(scale), "no gain can take the factor: set quant.uaq_scale: 1");
  accumulator_->finish();
  const torch::NoGradGuard no_grad;
  std::set<std::string> gains;
  for (const model::WeightSpec& spec : model::weight_specs(config)) gains.insert(model::norm_before(config, spec.name));
  const auto is_gain = [&](const std::string& name) { return gains.contains(name); };
  const auto reads_norm = [&](const std::string& name) { return !model::norm_before(config, name).empty(); };
  weights_->parameters().named().change_masters(
      [&](const std::string& name) { return is_gain(name) || reads_norm(name); },
      [&](const std::string& name, std::span<float> values) {
        const bool gain = is_gain(name);
        const float offset = config.norm_offset;
        for (float& value : values)
          value = !gain ? value / scale : offset == 0 ? value * scale : (value + offset) * scale - offset;
      });
  publisher_->masters_changed();
  weights_->refresh();
}

const model::Snapshot* Learner::published() const { return publisher_->present(); }

LearnerForward Learner::forward_mode() const { return forward_mode_; }

bool Learner::reads_in_place(const std::string& tensor) const { return engine_->reads_in_place(tensor); }

void Learner::release_memory() {
  if (weights_->parameters().options().device.is_cuda()) at::getDeviceAllocator(torch::kCUDA)->emptyCache();
  else release_tensor_memory();
}

std::string torch_version() { return TORCH_VERSION; }

model::WeightViews LearnerState::masters() const { return weights_.parameters().named().masters(); }

model::WeightViews LearnerState::moments() const { return weights_.parameters().named().moments(); }

model::WeightViews LearnerState::gradients() const {
  weights_.require_trainable();
  return accumulator_.gradients();
}

state::StagedRead LearnerState::staged_read() const { return weights_.parameters().named().staged_read(); }

base::Buffer LearnerState::master(const std::string& name) const { return weights_.master(name); }

model::WeightSource LearnerState::all_masters() const { return weights_.all_masters(); }

void LearnerState::restore(const std::function<void(const std::string& name, const base::View& to)>& fill,
                           std::int64_t num_updates) {
  const torch::NoGradGuard no_grad;
  weights_.parameters().named().fill(fill);
  optimizer_.set_num_updates(num_updates);
  publisher_.masters_changed();
  accumulator_.restart();
  weights_.refresh();
}

void LearnerState::free_moments() { weights_.parameters().free_moments(); }

}  // namespace qrl::learner
