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
class TrainingKernels;
}

namespace qrl::learner {

/// Selects the tensors that the forward pass reads. If the weights are sharded, the pass reads copies of all weights;
/// a matrix's copy has the dtype of its matmul. With adapters, the pass reads the base's weights in copies or in a
/// snapshot. In all other cases, it reads the masters, unless torch_ops selects copies.
struct ParameterOptions : LayoutOptions {
  torch::ScalarType compute = torch::kBFloat16;
  bool trainable = true;     ///< false: no gradients and moments
  bool f32_lm_head = false;  ///< whether lm_head multiplies in fp32 even if `compute` is bf16
  bool packs_head = true;    ///< whether logits use PolicyWeights::head
  bool reads_layers = true;  ///< false: the forward pass reads the layers' matrices in a snapshot
  torch::Device device = torch::kCPU;
  /// Whether LibTorch runs the operations (torch_ops.h). If so, with `compute` bf16 the forward pass reads bf16 copies
  /// of matrices, and the host reads masters through staged_read.
  bool torch_ops = false;
  const cuda::TrainingKernels* kernels = nullptr;  ///< kernels of gradient_norm and take_step; may be null
  bool fake_quant = false;                         ///< with torch_ops: copies hold dequantized values (read_quantized)
  bool own_lm_head = false;                        ///< whether lm_head is from the masters, not the snapshot
  bool reads_tables = true;                        ///< false: embedding and lm_head are the decoder's (read_tables)
  std::size_t staging_bytes = std::size_t{256} << 20;  ///< limit of NamedState::staged_read
};

class Parameters {
 public:
  /// Initializes masters, and the base under adapters, from `initial`. Call `refresh` before a forward pass.
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

  /// Updates what the forward pass reads. Call it after every change of masters. Collective when sharded.
  void refresh(RankTensors& ranks);
  /// Refresh one range after another, while other masters are still updated. begin_refresh updates this rank's copies
  /// and begins to exchange them between ranks. end_refresh waits for all exchanges. A range holds whole tensors; all
  /// ranks refresh the ranges in the same order. With are_written, this rank's copies (copies_of) are already up to
  /// date, except Muon's. Collective when sharded.
  void begin_refresh(const GradientRange& range, RankTensors& ranks, bool are_written = false);
  void end_refresh(RankTensors& ranks);
  struct Copy {
    GradientRange range;
    Tensor values;  ///< undefined if the range has no copy
  };
  /// Returns the copies in the range, split by dtype.
  std::vector<Copy> copies_of(const GradientRange& range) const;
  /// Sets each Linear::quantized to the snapshot's matrix.
  void bind_quantized(const model::Snapshot& snapshot);
  /// With fake_quant, sets the matrices that the forward pass reads to `snapshot`'s matrices, dequantized and rounded
  /// to the compute dtype. The next refresh overwrites them.
  void read_quantized(const model::Snapshot& snapshot);
  /// Does the same from the snapshot's copy on this device.
  void read_quantized(model::DeviceWeights& weights);
  /// Without reads_tables, makes the forward pass read the decoder's embedding and lm_head in place. Call it again if
  /// they move. If lm_head_dtype is fp32, lm_head is a copy.
  void read_tables(model::DeviceWeights& weights);
  /// Writes a tensor's master to `to` on every rank. Collective when sharded.
  void read_master(const model::WeightSpec& spec, float* to, dist::Collectives& world) const;

  /// Calls `visit` with views of all ranks' masters on options().device. When sharded, calls it for one
  /// range of ParameterLayout::published at a time, with views that are valid only during the call. Collective when
  /// sharded.
  void visit_masters(RankTensors& ranks, const std::function<void(const model::WeightViews&)>& visit) const;

  void clear_moments();
  void free_moments() { flat_.free_moments(); }
  void wait_for_device() const;

 private:
  bool has_copies() const;
  void make_segments();
  Weight weight(const std::vector<std::string>& names) const;
  /// Returns a copy of an untrained weight of `base`, or nothing for a matrix that the forward pass reads in a
  /// snapshot. is_kept forces a copy.
  Weight frozen(const std::vector<std::string>& names, const model::WeightSource& base, bool is_kept) const;
  void bind_policy(const model::WeightSource& base);
  LinearAdapter bind_adapter(const std::string& prefix, const model::BlockMatrix& matrix) const;
  void pack_head();

  model::ModelConfig config_;
  ParameterOptions options_;
  ParameterLayout layout_;
  FlatBuffers flat_;
  NamedState named_;
  std::vector<Copy> segments_;  ///< all copies; without copies, the masters
  PolicyWeights policy_;
};

}  // namespace qrl::learner
