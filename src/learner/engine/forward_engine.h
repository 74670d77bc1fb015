// Owns the interface of a learner's forward pass: it scores packed rows with a policy's weights. fused_engine.h runs
// the loops of src/ops, torch_engine.h LibTorch's operations and the decoder on its device; engines.h chooses.
#pragma once

#include <functional>
#include <string>

#include "learner/forward/forward_ops.h"
#include "learner/forward/logprob.h"
#include "learner/forward/policy.h"
#include "learner/options.h"
#include "learner/weights/parameters.h"

namespace qrl::learner {

/// Returns the formats of a forward pass. With bf16 all are the compute dtype; fake_quant and low_bit are fp32 between
/// the linear layers. Their attention's operands are of the compute dtype, or fp32 if `kv_format` is.
ForwardNumerics forward_numerics(const Numerics& numerics);

/// Holds a forward pass's arguments. Referenced objects must outlive the backward pass.
struct ForwardTask {
  const PackedRows& rows;
  const TargetRows& targets;
  std::function<void(std::size_t layer)> layer_done;  ///< ForwardOptions::layer_done
  const PolicyWeights* policy = nullptr;              ///< null: the parameters' own
};

class ForwardEngine {
 public:
  ForwardEngine(const model::ModelConfig& config, const LearnerOptions& options);
  ForwardEngine(const ForwardEngine&) = delete;
  ForwardEngine& operator=(const ForwardEngine&) = delete;
  virtual ~ForwardEngine() = default;

  virtual ParameterOptions parameters() const = 0;
  /// Reads `snapshot`'s weights from now on; call it after each publish. `device` also has them, or is null;
  /// `is_on_device`: it alone has them.
  void read(Parameters& parameters, const model::Snapshot& snapshot, model::DeviceWeights* device, bool is_on_device);
  /// Prepares that snapshot for forward passes; `score` does so first.
  virtual void prepare(Parameters& /*parameters*/, const model::Snapshot& /*snapshot*/) {}
  /// Computes log-probs and entropies of the targets, differentiable unless autograd is off. `snapshot`: the one last
  /// read, with the present weights; may be null unless reads_snapshot().
  virtual TargetScores score(Parameters& parameters, const model::Snapshot* snapshot, const ForwardTask& task) = 0;

  /// Returns whether `score` returns before the device is done (TargetScores::wait).
  virtual bool works_beside_host() const { return false; }
  /// Returns whether memory has room for `num_tokens` more beside the previous micro-batch.
  virtual bool has_room_for(std::int64_t /*num_tokens*/) const { return true; }

  bool reads_snapshot() const { return numerics_.quantized(); }
  bool is_bitwise() const { return numerics_.bitwise; }
  /// Implements Learner::reads_in_place.
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

}  // namespace qrl::learner
