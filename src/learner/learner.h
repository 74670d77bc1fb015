// Does not include LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/buffer.h"
#include "dist/collectives.h"
#include "learner/options.h"
#include "model/config.h"
#include "model/device_weights.h"
#include "model/snapshot.h"
#include "model/weights.h"
#include "ops/sample.h"
#include "types/batch.h"

namespace qrl::learner {

class ForwardEngine;
class GradientAccumulator;
class MicroBatchPacker;
class Optimizer;
struct PolicyWeights;
class Publisher;
class TrainableWeights;

/// Accesses a learner's masters, moments and gradients by name. The learner must outlive it.
class LearnerState {
 public:
  LearnerState(TrainableWeights& weights, GradientAccumulator& accumulator, Optimizer& optimizer, Publisher& publisher)
      : weights_(weights), accumulator_(accumulator), optimizer_(optimizer), publisher_(publisher) {}

  /// Returns views of this rank's fp32 masters by name. The views are valid as long as the learner.
  model::WeightViews masters() const;
  /// Returns views of "exp_avg.<tensor>" (including Muon's momentum) and "exp_avg_sq.<tensor>". Empty if not trainable.
  model::WeightViews moments() const;
  /// Returns views of all gradients accumulated since the last `update`. For tests.
  model::WeightViews gradients() const;
  state::StagedRead staged_read() const;

  /// Returns a copy of this rank's fp32 master; with adapters, a copy of the base's weight. Returns an empty buffer if
  /// another rank owns the master.
  base::Buffer master(const std::string& name) const;
  /// Returns a source of all ranks' masters; with adapters, this is model::merged_weights. All ranks must read the
  /// source's tensors in the same order. Collective when sharded.
  model::WeightSource all_masters() const;

  /// Sets masters, moments and update count. Calls fill(name, to) for each master, then for each moment. `fill` writes
  /// the tensor to `to`, which is in host memory. Unless sharded, the order is the same on all ranks. Collective when
  /// sharded.
  void restore(const std::function<void(const std::string& name, const base::View& to)>& fill,
               std::int64_t num_updates);
  /// Frees the moments. Updates and checkpoints are impossible afterwards.
  void free_moments();

 private:
  TrainableWeights& weights_;
  GradientAccumulator& accumulator_;
  Optimizer& optimizer_;
  Publisher& publisher_;
};

/// Trains a policy with data parallelism. Ranks hold equal weights, get different micro-batches, and make the same
/// calls in the same order. Only one thread may call.
class Learner {
 public:
  /// Initializes the masters from `initial`. With options.lora, `initial` is the base, whose sources must outlive the
  /// learner.
  Learner(const model::ModelConfig& config, const model::WeightSource& initial, const LearnerOptions& options,
          dist::Collectives& world);
  Learner(const model::ModelConfig& config, const model::WeightSource& initial, const LearnerOptions& options,
          dist::Collectives& world, std::unique_ptr<ForwardEngine> engine);
  ~Learner();
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  /// Computes the targets' log-probs and entropies under the current weights at the sampling temperature, without
  /// gradients. With top-k or top-p, the distribution is over the kept tokens only.
  TokenScores score(const types::MicroBatch& batch, const ops::SampleParams& sample_params);

  /// Sets the adapters of score_reference to `start`, or to no adapters if `start` is empty. `start` has the tensors of
  /// model::adapter_specs and must stay readable. Requires options.lora.
  void keep_reference(const std::optional<model::WeightSource>& start);
  bool has_reference() const;
  /// Computes what `score` computes, but with the reference's adapters instead of the trained adapters.
  TokenScores score_reference(const types::MicroBatch& batch, const ops::SampleParams& sample_params);

  /// Adds the gradient of this micro-batch's share of the loss to the fp32 gradients. `counts` are the loss's
  /// denominators over all ranks. With is_last, the next call must be `update`, because this backward pass may already
  /// begin to sum gradients over ranks (GradientSums). On a GPU with memory for two micro-batches, the loss and
  /// backward pass may run only after the next call has started its forward pass. This does not change results.
  void accumulate(const types::MicroBatch& batch, const types::GlobalCounts& counts, const LossOptions& loss,
                  const ops::SampleParams& sample_params, bool is_last = false);

  /// Ends the mini-batch: sums gradients over ranks, checks and clips them, updates the weights, and zeroes the
  /// gradients. If any rank has a non-finite loss or gradient, no rank changes weights, update count or schedule.
  UpdateReport update();

  double lr() const;
  std::int64_t num_updates() const;
  /// Restarts the optimizer (moments 0, count 0) with new options.
  void reset_optimizer(const OptimizerOptions& optim, std::int64_t total_updates);

  /// Returns whether each tensor's master and moments are on only one rank. If so, all ranks must together make the
  /// calls marked "Collective when sharded".
  bool is_sharded() const;
  bool has_adapters() const;
  const model::LoraConfig& lora() const;
  LearnerState& state();
  const LearnerState& state() const;

  /// Quantizes the masters into `snapshot`. With fake_quant or low_bit, forward passes read this snapshot from now on.
  /// `snapshot` must outlive the learner, and only the learner may publish into it. Collective when sharded.
  ///
  /// With options.lora, the first call for a snapshot with adapters writes its base, A and B. Later calls write only A
  /// and B. A snapshot without adapters gets merged weights.
  ///
  /// `device` may be null. It holds a copy of the snapshot's weights on this learner's device. Once the copy is loaded,
  /// `publish` quantizes the masters into the copy only, in place (DeviceWriter). With fake_quant, the forward pass
  /// dequantizes the copy. With low_bit on a GPU, the forward pass reads the copy, so `device` is required and must
  /// live as long as the snapshot.
  void publish(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device = nullptr);

  /// Applies QuRL's update-aware quantization (§3.3): divides the linear weights after a norm (q, k, v; gate, up) by
  /// `scale`, and multiplies the norm's gain by `scale`. Biases do not change. Collective when sharded.
  void apply_uaq(float scale);

  /// Returns the published snapshot if it was made from the current masters, otherwise null.
  const model::Snapshot* published() const;
  LearnerForward forward_mode() const;
  /// Returns whether the forward pass reads the published `tensor` in place, from memory that the decoder shares. It
  /// never does with forward bf16, or with fake_quant on a GPU.
  bool reads_in_place(const std::string& tensor) const;

  /// Frees memory kept for the next micro-batch.
  void release_memory();

 private:
  TokenScores score_by(const PolicyWeights* policy, const types::MicroBatch& batch,
                       const ops::SampleParams& sample_params);

  struct Reference;
  int num_threads_;
  LearnerForward forward_mode_;
  // Members may point to members above them.
  std::unique_ptr<ForwardEngine> engine_;
  std::unique_ptr<TrainableWeights> weights_;
  std::unique_ptr<Publisher> publisher_;
  std::unique_ptr<MicroBatchPacker> packer_;
  std::unique_ptr<GradientAccumulator> accumulator_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Reference> reference_;
  std::unique_ptr<LearnerState> state_;
};

std::string torch_version();

}  // namespace qrl::learner
