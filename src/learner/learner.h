// Owns training. Does not include LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/buffer.h"
#include "config/words.h"
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
class MicroBatchPacker;  // forward/packed_rows.h
class Optimizer;
struct PolicyWeights;
class Publisher;
class TrainableWeights;

/// Accesses a learner's masters, moments and gradients by name. The learner must outlive it.
class LearnerState {
 public:
  LearnerState(TrainableWeights& weights, GradientAccumulator& accumulator, Optimizer& optimizer, Publisher& publisher)
      : weights_(weights), accumulator_(accumulator), optimizer_(optimizer), publisher_(publisher) {}

  /// Returns this rank's fp32 masters by name, as views in place, valid as long as the learner.
  model::WeightViews masters() const;
  /// Returns views of "exp_avg.<tensor>" (including Muon's momentum) and "exp_avg_sq.<tensor>". Empty if not trainable.
  model::WeightViews moments() const;
  /// Returns views of all gradients accumulated before `update`, for tests.
  model::WeightViews gradients() const;
  state::StagedRead staged_read() const;

  /// Returns a copy of this rank's fp32 master. With adapters, copies the base's weight. Empty if another rank has it.
  base::Buffer master(const std::string& name) const;
  /// Returns a source of all ranks' masters. With adapters, returns merged_weights. All ranks must read the source in
  /// the same order. Collective when sharded.
  model::WeightSource all_masters() const;

  /// Sets masters, moments and update count. Calls fill(name, to) for each master, then each moment. `fill` writes to
  /// `to`, in host memory. The order is the same on all ranks unless sharded. Collective when sharded.
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

/// Trains a policy. Data parallel: ranks hold equal weights and moments, have their own micro-batches, and make the
/// same calls in order. Only one thread may call.
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

  /// Computes targets' log-probs under the current weights and the sampling temperature, without gradients. After top-k
  /// or top-p, the distribution is over the kept tokens.
  TokenScores score(const types::MicroBatch& batch, const ops::SampleParams& sample_params);

  /// With options.lora, sets the adapters of score_reference: `start`, or none. `start` has adapter_specs' tensors and
  /// must stay readable.
  void keep_reference(const std::optional<model::WeightSource>& start);
  bool has_reference() const;
  /// Computes `score` under the base and the reference adapters.
  TokenScores score_reference(const types::MicroBatch& batch, const ops::SampleParams& sample_params);

  /// Adds, in fp32, the gradient of this micro-batch's share of the loss. `counts` are the global denominators. If
  /// is_last, `update` must follow: sums over ranks may begin during the backward pass (GradientSums). On a device with
  /// memory for a second micro-batch, the host computes this loss during the next call's forward pass. Results do not
  /// change.
  void accumulate(const types::MicroBatch& batch, const types::GlobalCounts& counts, const LossOptions& loss,
                  const ops::SampleParams& sample_params, bool is_last = false);

  /// Ends the mini-batch: sums gradients over ranks, checks and clips them, updates the weights, and zeroes the
  /// gradients. If a gradient is not finite on any rank, no rank changes weights, update count or schedule.
  UpdateReport update();

  double lr() const;
  std::int64_t num_updates() const;
  /// Restarts the optimizer (moments 0, count 0) with new options.
  void reset_optimizer(const OptimizerOptions& optim, std::int64_t total_updates);

  /// Returns whether each tensor's masters and moments are on one rank only. If so, all ranks must make the calls
  /// marked as collective.
  bool is_sharded() const;
  bool has_adapters() const;
  const model::LoraConfig& lora() const;  ///< disabled if its rank is 0
  LearnerState& state();
  const LearnerState& state() const;

  /// Quantizes the masters into `snapshot`, which fake_quant and low_bit read from now on. `snapshot` must outlive the
  /// learner, and only the learner may publish into it. Collective when sharded.
  ///
  /// With options.lora, a snapshot with adapters gets the base once, then only A and B. Other snapshots get merged
  /// weights.
  ///
  /// `device`, unless null, is for a copy of the snapshot's weights on this learner's device. Once the copy is loaded,
  /// only the copy is rewritten, in place from the masters (DeviceWriter). fake_quant dequantizes the copy. low_bit on
  /// a device reads the copy, and requires a `device` that lives as long as the snapshot.
  void publish(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device = nullptr);

  /// Applies QuRL's update-aware quantization (§3.3): divides the linear weights after a norm (q, k, v; gate, up) by
  /// `scale`, and multiplies the norm's gain by `scale`. Biases stay. Collective when sharded.
  void apply_uaq(float scale);

  /// Returns the published snapshot if it has the current masters, else null.
  const model::Snapshot* published() const;
  config::LearnerForward forward_mode() const;
  /// Returns whether the forward pass reads this published tensor in the decoder's memory. It never does with bf16, or
  /// with fake_quant on a GPU.
  bool reads_in_place(const std::string& tensor) const;

  /// Frees memory kept for the next micro-batch.
  void release_memory();

 private:
  TokenScores score_by(const PolicyWeights* policy, const types::MicroBatch& batch,
                       const ops::SampleParams& sample_params);

  struct Reference;  // for a KL term with adapters
  int num_threads_;
  config::LearnerForward forward_mode_;
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

/// Returns the version of LibTorch at build time.
std::string torch_version();

}  // namespace qrl::learner
