// Owns the interface of a learner's forward pass, which scores packed rows with a policy's weights. Implementations:
// engines.cpp (src/ops) and torch_engine.h (LibTorch, or the decoder on its device).
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

/// Returns the dtypes of a forward pass. With bf16, all are the compute dtype. With fake_quant and low_bit, values
/// between the linear layers are fp32; attention's operands are in the compute dtype, or fp32 if `kv_format` is.
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
  /// Reads `snapshot`'s weights from now on; call it after each publish. `device`, unless null, also has them; with
  /// is_on_device, the host's are out of date.
  void read(Parameters& parameters, const model::Snapshot& snapshot, model::DeviceWeights* device, bool is_on_device);
  /// Prepares reading the snapshot before the first `score`, which otherwise does it.
  virtual void prepare(Parameters& /*parameters*/, const model::Snapshot& /*snapshot*/) {}
  /// Computes log-probs and entropies of the targets, differentiable unless autograd is off. `snapshot`: the one last
  /// read, with the current weights; may be null unless reads_snapshot().
  virtual TargetScores score(Parameters& parameters, const model::Snapshot* snapshot, const ForwardTask& task) = 0;

  /// Returns whether `score` returns before the device has finished (TargetScores::wait).
  virtual bool works_beside_host() const { return false; }
  /// Returns whether memory suffices for another `num_tokens` while the previous micro-batch is kept.
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

/// Returns the engine that options.device selects; cuda is the GPU with this rank's number on its machine, round-robin.
/// Throws an input error without such a GPU.
std::unique_ptr<ForwardEngine> choose_engine(const model::ModelConfig& config, const LearnerOptions& options,
                                             const dist::Collectives& world);

}  // namespace qrl::learner
