// Owns what the forward pass reads: the flat buffers' tensors as a policy, or copies of them in the dtype that
// computes. Knows neither the forward pass nor the optimizer's arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dist/collectives.h"
#include "learner/flat_buffers.h"
#include "learner/named_state.h"
#include "learner/parameter_layout.h"
#include "learner/policy_weights.h"
#include "learner/rank_tensors.h"
#include "model/config.h"
#include "model/device_weights.h"
#include "model/snapshot.h"
#include "model/weights.h"

namespace qrl::cuda {
class TrainingKernels;  // cuda/train/training.h
}

namespace qrl::learner {

/// With shards the forward pass reads copies of all, matrices in the dtype that its matmuls round them to anyway. With
/// adapters all other weights are read once, in the dtype that computes with them, and those that a snapshot has not at
/// all.
struct ParameterOptions : LayoutOptions {
  torch::ScalarType compute = torch::kBFloat16;
  bool trainable = true;     ///< else no gradients and no moments
  bool f32_lm_head = false;  ///< lm_head multiplies hidden states in fp32, whatever `compute` is
  bool packs_head = true;    ///< logits are of PolicyWeights::head
  bool reads_layers = true;  ///< false: the layers' matrices are a snapshot's, and need no such copies
  torch::Device device = torch::kCPU;
  /// LibTorch's operations compute (torch_ops.h): they read matrices in the compute dtype, so that a bf16 policy
  /// has such copies, sharded or not; and what the host sees of all this goes through copies, whatever the device.
  bool torch_ops = false;
  const cuda::TrainingKernels* kernels = nullptr;  ///< of the device; null: LibTorch's operations do an update
  bool fake_quant = false;   ///< with torch_ops: those copies are a snapshot's matrices (read_quantized)
  bool own_lm_head = false;  ///< lm_head is never a snapshot's nor a device's: it is the masters', as without both
  bool reads_tables = true;  ///< false: embedding and lm_head are those that a device has (read_tables), without copies
  std::size_t staging_bytes = std::size_t{256} << 20;  ///< at most, of NamedState::staged_read's buffer
};

class Parameters {
 public:
  /// Has `initial` written into the masters, each tensor in its place; with adapters it has theirs and the base's. Call
  /// `refresh` before the first forward pass.
  Parameters(const model::ModelConfig& config, const model::WeightSource& initial, const ParameterOptions& options);
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  const model::ModelConfig& config() const { return config_; }
  const ParameterOptions& options() const { return options_; }
  const PolicyWeights& policy() const { return policy_; }
  const ParameterLayout& layout() const { return layout_; }
  const FlatBuffers& flat() const { return flat_; }
  const NamedState& named() const { return named_; }
  NamedState& named() { return named_; }

  /// Brings what the forward pass reads up to the masters: after every change of them. Collective when sharded.
  void refresh(RankTensors& ranks);
  /// Refreshes tensors in this order as their masters are updated. The forward pass's copies begin to travel between
  /// ranks, and all that have begun have arrived when end_refresh returns. Takes whole tensors. Collective when
  /// sharded. are_written: copies of this rank's masters are up to date (copies_of), except Muon's.
  void begin_refresh(const GradientRange& range, RankTensors& ranks, bool are_written = false);
  void end_refresh(RankTensors& ranks);
  /// Holds the forward pass's copy of a part of the flat order. Undefined if it reads the masters, or nothing.
  struct Copy {
    GradientRange range;
    Tensor values;
  };
  /// Returns these tensors' copies, in parts of one dtype each.
  std::vector<Copy> copies_of(const GradientRange& range) const;
  /// Has each linear layer know the snapshot's form of it (Linear::quantized).
  void bind_quantized(const model::Snapshot& snapshot);
  /// With fake_quant: makes the forward pass read matrices as `snapshot` holds them, dequantized and rounded to the
  /// compute dtype, until the next refresh.
  void read_quantized(const model::Snapshot& snapshot);
  /// Does the same with its weights on this device, which are dequantized there.
  void read_quantized(model::DeviceWeights& weights);
  /// Without reads_tables: makes the forward pass read embedding and lm_head in place until they move. It reads lm_head
  /// as a copy if lm_head_dtype is fp32.
  void read_tables(model::DeviceWeights& weights);
  /// Writes a tensor's master to `to`, on every rank. Collective when sharded.
  void read_master(const model::WeightSpec& spec, float* to, dist::Collectives& world) const;

  /// Shows everybody's masters where they lie, on options().device, all written: together, or, sharded, one at a time
  /// in memory that lasts for the call. Collective when sharded.
  void visit_masters(RankTensors& ranks, const std::function<void(const model::WeightViews&)>& visit) const;

  void clear_moments();
  void free_moments() { flat_.free_moments(); }  ///< no update may follow
  /// Blocks until the device has finished its work.
  void wait_for_device() const;

 private:
  bool has_copies() const;  ///< the forward pass reads others than the masters
  void make_segments();
  Weight weight(const std::vector<std::string>& names) const;
  /// Returns a weight that is not trained, or nothing if it is not read. is_kept: a table that is read from these
  /// copies and not from a snapshot.
  Weight frozen(const std::vector<std::string>& names, const model::WeightSource& base, bool is_kept) const;
  void bind_policy(const model::WeightSource& base);
  LinearAdapter bind_adapter(const std::string& prefix, const model::BlockMatrix& matrix) const;
  void pack_head();

  model::ModelConfig config_;
  ParameterOptions options_;
  ParameterLayout layout_;
  FlatBuffers flat_;
  NamedState named_;
  std::vector<Copy> segments_;  ///< of everything, or the masters themselves
  PolicyWeights policy_;
};

}  // namespace qrl::learner
