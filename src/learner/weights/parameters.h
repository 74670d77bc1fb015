// Owns what the forward pass reads: masters, or copies in the dtype that computes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dist/collectives.h"
#include "learner/forward/policy_weights.h"
#include "learner/tensors/rank_tensors.h"
#include "learner/weights/flat_buffers.h"
#include "learner/weights/parameter_layout.h"
#include "model/config.h"
#include "model/device_weights.h"
#include "model/snapshot.h"
#include "model/weights.h"

namespace qrl::cuda {
class TrainingKernels;  // cuda/train/training.h
}

namespace qrl::learner {

/// With shards the forward pass reads copies of all, matrices in their matmuls' dtype. With adapters, other weights are
/// read once in that dtype, except those of a snapshot.
struct ParameterOptions : LayoutOptions {
  torch::ScalarType compute = torch::kBFloat16;
  bool trainable = true;     ///< else no gradients and no moments
  bool f32_lm_head = false;  ///< lm_head multiplies in fp32, for any `compute`
  bool packs_head = true;    ///< logits are of PolicyWeights::head
  bool reads_layers = true;  ///< false: the layers' matrices are a snapshot's, without copies
  torch::Device device = torch::kCPU;
  /// LibTorch's operations compute (torch_ops.h): a bf16 policy has bf16 copies of matrices, and the host sees masters
  /// through staged copies on any device.
  bool torch_ops = false;
  const cuda::TrainingKernels* kernels = nullptr;  ///< null: LibTorch's operations update
  bool fake_quant = false;   ///< with torch_ops: those copies are a snapshot's matrices (read_quantized)
  bool own_lm_head = false;  ///< lm_head is the masters', never a snapshot's or a device's
  bool reads_tables = true;  ///< false: embedding and lm_head are a device's (read_tables), without copies
  std::size_t staging_bytes = std::size_t{256} << 20;  ///< at most, of NamedState::staged_read's buffer
};

class Parameters {
 public:
  /// Has `initial` written into the masters; with adapters it has theirs and the base's. Call `refresh` before a
  /// forward pass.
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

  /// Updates what the forward pass reads after every change of masters. Collective when sharded.
  void refresh(RankTensors& ranks);
  /// Refreshes tensors as their masters are updated, in the same order on every rank. Copies begin to travel between
  /// ranks; all have arrived when end_refresh returns. Takes whole tensors. Collective when sharded. are_written:
  /// copies of this rank's masters are up to date (copies_of), except Muon's.
  void begin_refresh(const GradientRange& range, RankTensors& ranks, bool are_written = false);
  void end_refresh(RankTensors& ranks);
  /// Holds the forward pass's copy of a part of the flat order; undefined if it reads the masters, or nothing.
  struct Copy {
    GradientRange range;
    Tensor values;
  };
  /// Returns these tensors' copies, split by dtype.
  std::vector<Copy> copies_of(const GradientRange& range) const;
  /// Sets each layer's Linear::quantized.
  void bind_quantized(const model::Snapshot& snapshot);
  /// With fake_quant: sets the matrices to `snapshot`'s, dequantized and rounded to the compute dtype, until the next
  /// refresh.
  void read_quantized(const model::Snapshot& snapshot);
  /// Does the same with weights on this device.
  void read_quantized(model::DeviceWeights& weights);
  /// Without reads_tables: reads embedding and lm_head in place until they move. lm_head is a copy if lm_head_dtype is
  /// fp32.
  void read_tables(model::DeviceWeights& weights);
  /// Writes a tensor's master to `to` on every rank. Collective when sharded.
  void read_master(const model::WeightSpec& spec, float* to, dist::Collectives& world) const;

  /// Shows all ranks' masters on options().device, in place, or sharded one at a time in memory that lasts for the
  /// call. Collective when sharded.
  void visit_masters(RankTensors& ranks, const std::function<void(const model::WeightViews&)>& visit) const;

  void clear_moments();
  void free_moments() { flat_.free_moments(); }
  void wait_for_device() const;

 private:
  bool has_copies() const;  ///< the forward pass reads others than the masters
  void make_segments();
  Weight weight(const std::vector<std::string>& names) const;
  /// Returns an untrained weight, or nothing if unread. is_kept: a table read from these copies, not a snapshot.
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
