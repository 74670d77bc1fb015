#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dist/collectives.h"
#include "learner/forward/forward_ops.h"
#include "learner/forward/logprob.h"
#include "learner/options.h"
#include "learner/weights/parameters.h"

namespace qrl::learner {

/// Returns the dtypes of a forward pass. With forward bf16, all dtypes but lm_head's equal `compute`. With fake_quant
/// or low_bit, values between the linear layers are fp32, and attention's operands are fp32 if `kv_format` is f32.
ForwardNumerics forward_numerics(const Numerics& numerics);

/// Referenced objects must outlive the backward pass.
struct ForwardTask {
  const PackedRows& rows;
  const TargetRows& targets;
  std::function<void(std::size_t layer)> layer_done;  ///< ForwardOptions::layer_done
  const PolicyWeights* policy = nullptr;              ///< null: the trained policy (Parameters::policy)
};

class ForwardEngine {
 public:
  ForwardEngine(const model::ModelConfig& config, const LearnerOptions& options);
  ForwardEngine(const ForwardEngine&) = delete;
  ForwardEngine& operator=(const ForwardEngine&) = delete;
  virtual ~ForwardEngine() = default;

  virtual ParameterOptions parameters() const = 0;
  /// Makes forward passes read `snapshot`'s weights. Call it after each publish. Unless null, `device` is the
  /// device's copy of the snapshot. If is_on_device, only that copy is up to date, and host memory is stale.
  void read(Parameters& parameters, const model::Snapshot& snapshot, model::DeviceWeights* device, bool is_on_device);
  /// Uploads the snapshot's weights; without this call, the next `score` uploads them.
  virtual void prepare(Parameters& /*parameters*/, const model::Snapshot& /*snapshot*/) {}
  /// Computes the targets' log-probs and entropies, differentiable unless autograd is off. `snapshot` is the snapshot
  /// last passed to `read`, and holds the current weights. It may be null unless reads_snapshot().
  virtual TargetScores score(Parameters& parameters, const model::Snapshot* snapshot, const ForwardTask& task) = 0;

  /// Returns whether `score` returns before the device has finished (TargetScores::wait).
  virtual bool works_beside_host() const { return false; }
  /// Returns whether device memory suffices for another micro-batch of `num_tokens` while the previous micro-batch's
  /// tensors are kept.
  virtual bool has_room_for(std::int64_t /*num_tokens*/) const { return true; }

  /// Returns whether backward passes add to the gradients of rotated matrices in their rotated basis
  /// (quantized_linear).
  virtual bool gathers_rotated() const { return true; }
  bool reads_snapshot() const { return numerics_.quantized(); }
  bool is_bitwise() const { return numerics_.bitwise; }
  virtual bool reads_in_place(const std::string& tensor) const = 0;

 protected:
  virtual void read_weights(Parameters& /*parameters*/, const model::Snapshot& /*snapshot*/,
                            model::DeviceWeights* /*device*/, bool /*is_on_device*/) {}
  const model::ModelConfig& config() const { return config_; }
  const ForwardNumerics& numerics() const { return numerics_; }
  ForwardOptions forward_options(const ForwardTask& task) const;
  ParameterOptions common_parameters() const;

 private:
  model::ModelConfig config_;
  ForwardNumerics numerics_;
  bool activation_checkpointing_;
};

/// Returns the engine that options.device selects. Throws an input error if the engine's GPU is missing. Throws like
/// check_torch_engine.
std::unique_ptr<ForwardEngine> choose_engine(const model::ModelConfig& config, const LearnerOptions& options,
                                             const dist::Collectives& world);

}  // namespace qrl::learner
