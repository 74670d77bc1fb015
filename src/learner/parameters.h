// Owns the learner's memory: fp32 masters, gradients and moments, each one flat buffer, what the forward pass reads of
// them, and which rank keeps what. Knows neither the forward pass nor the optimizer's arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dist/collectives.h"
#include "learner/policy_weights.h"
#include "learner/rank_tensors.h"
#include "model/config.h"
#include "model/device_weights.h"
#include "model/snapshot.h"
#include "model/weights.h"

namespace qrl::learner {

/// Where a named tensor lies in the flat buffers.
struct Placement {
  model::WeightSpec spec;
  std::int64_t offset = 0;        ///< elements, in the gradients
  int owner = 0;                  ///< the rank that keeps its master and moments
  std::int64_t owned_offset = 0;  ///< elements, in the owner's masters and moments
};

/// Elements next to each other in gradients, masters and moments that one AdamW step updates.
struct AdamwSegment {
  std::int64_t offset = 0, owned_offset = 0, count = 0;
  bool decays = false;
};

/// Some of the gradients, next to each other.
struct GradientRange {
  std::int64_t begin = 0, count = 0;
  std::int64_t end() const { return begin + count; }
  bool holds(std::int64_t offset) const { return offset >= begin && offset < end(); }
};

struct ParameterOptions {
  torch::ScalarType compute = torch::kBFloat16;
  bool trainable = true;     ///< else no gradients and no moments
  bool f32_lm_head = false;  ///< lm_head meets hidden states in fp32 whatever `compute`
  bool packs_head = true;    ///< logits are of PolicyWeights::head
  bool muon = false;         ///< the layers' matrices have a first moment alone
  /// Not of rank 0: what is trained are model::adapter_specs alone; all other weights are read once, in the dtype that
  /// computes with them, and those that a snapshot has not at all. Not sharded.
  model::LoraConfig lora = {};
  /// With more than one rank in `shards` masters and moments are divided: each rank keeps some tensors' (shard_owners),
  /// and the forward pass reads copies of all, matrices in the dtype that its matmuls round them to anyway.
  int rank = 0, shards = 1;
  bool reads_layers = true;  ///< false: the layers' matrices are a snapshot's, and need no such copies
  torch::Device device = torch::kCPU;
  /// LibTorch's operations compute (torch_ops.h): they read matrices in the compute dtype, so that a bf16 policy
  /// has such copies, sharded or not; and what the host sees of all this are copies, whatever the device.
  bool torch_ops = false;
  bool fake_quant = false;   ///< with torch_ops: those copies are a snapshot's matrices (read_quantized)
  bool reads_tables = true;  ///< false: embedding and lm_head are those that a device has (read_tables), without copies
  std::size_t staging_bytes = std::size_t{256} << 20;  ///< at most, of staged_read's buffer
};

/// Flat buffers on one device in an order of our own: matrices first (weight decay applies to them), of these the
/// layers' before embedding and lm_head, then gains and biases; tensors that one matmul reads together lie together.
/// Gradients are of all tensors; masters and moments of those that this rank keeps, all of them unless sharded.
class Parameters {
 public:
  /// Has `initial` written into the masters, each tensor in its place; with adapters it has theirs and the base's. Call
  /// `refresh` before the first forward pass.
  Parameters(const model::ModelConfig& config, const model::WeightSource& initial, const ParameterOptions& options);

  const PolicyWeights& policy() const { return policy_; }
  const std::vector<Placement>& placements() const { return placements_; }  ///< in weight_specs' order
  torch::ScalarType compute() const { return options_.compute; }

  bool trainable() const { return gradients_.defined(); }
  bool is_sharded() const { return options_.shards > 1; }
  bool is_mine(const Placement& placement) const { return placement.owner == options_.rank; }
  std::int64_t size() const { return gradients_.numel(); }  ///< of the gradients
  bool torch_ops() const { return options_.torch_ops; }
  bool fake_quant() const { return options_.fake_quant; }
  const torch::Device& device() const { return options_.device; }
  /// Elements [begin, begin + count), flat: of the gradients by offset, else by owned offset.
  Tensor gradients(std::int64_t begin, std::int64_t count) const { return gradients_.narrow(0, begin, count); }
  Tensor masters(std::int64_t begin, std::int64_t count) const { return masters_.narrow(0, begin, count); }
  Tensor exp_avg(std::int64_t begin, std::int64_t count) const { return exp_avg_.narrow(0, begin, count); }
  /// Not of elements that are Muon's: those have no second moment.
  Tensor exp_avg_sq(std::int64_t begin, std::int64_t count) const {
    return exp_avg_sq_.narrow(0, begin - num_muons_, count);
  }
  const Tensor& gradients() const { return gradients_; }
  bool is_muons(const Placement& placement) const;
  bool has_adapters() const { return options_.lora.enabled(); }
  /// What AdamW updates here of these gradients' tensors, in as few segments as there can be.
  std::vector<AdamwSegment> adamw_segments(const GradientRange& range) const;
  /// A layer's matrices, all that is no layer's matrix, and both: of one that is not trainable, too.
  GradientRange layer_gradients(std::size_t layer) const;
  GradientRange other_gradients() const { return {first_other_, segments_.back().end - first_other_}; }
  GradientRange all_gradients() const { return {0, segments_.back().end}; }
  /// The owners of these gradients, counted from the range's first.
  std::vector<dist::Part> gradient_parts(const GradientRange& range) const;

  /// Brings what the forward pass reads up to the masters: after every change of them. Collective when sharded.
  void refresh(RankTensors& ranks);
  /// The same for tensors in this order as their masters are done: what the forward pass reads of them begins to travel
  /// between ranks, and is there, with all else that has begun, when end_refresh returns. Whole tensors. Collective
  /// when sharded.
  void begin_refresh(const GradientRange& range, RankTensors& ranks);
  void end_refresh(RankTensors& ranks);
  /// Has each linear layer know the snapshot's form of it (Linear::quantized).
  void bind_quantized(const model::Snapshot& snapshot);
  /// With fake_quant: has the forward pass read matrices as `snapshot` holds them, dequantized and rounded to the
  /// compute dtype, until the next refresh.
  void read_quantized(const model::Snapshot& snapshot);
  /// The same of its weights on this device, which are dequantized there.
  void read_quantized(model::DeviceWeights& weights);
  /// Without reads_tables: has the forward pass read embedding and lm_head in place, until they move; lm_head as a copy
  /// where lm_head_dtype is fp32.
  void read_tables(model::DeviceWeights& weights);
  /// Writes a tensor's master to `to`, on every rank. Collective when sharded.
  void read_master(const model::WeightSpec& spec, float* to, dist::Collectives& world) const;

  /// Shows everybody's masters where they lie, on `device()`, all written: together, or, sharded, one at a time in
  /// memory that lasts for the call. Collective when sharded.
  void visit_masters(RankTensors& ranks, const std::function<void(const model::WeightViews&)>& visit) const;

  /// Named views of this rank's masters and moments ("exp_avg.NAME" and, where there is one, "exp_avg_sq.NAME"), and of
  /// all gradients, in host memory: with torch_ops of copies made by the call, which last until its next. For tests;
  /// what a run asks for goes a chunk at a time.
  model::WeightViews named_masters() const;
  model::WeightViews named_moments() const;
  model::WeightViews named_gradients() const;
  /// The same masters and moments where they lie, on `device()`; and how a file's writer reads them: with torch_ops
  /// through one staging buffer of options' size, pinned where there is a GPU, which is made by the first read and
  /// stays. Else they are in host memory, and there is no such way.
  model::WeightViews masters_in_place() const;
  model::WeightViews moments_in_place() const;
  state::StagedRead staged_read() const;
  /// This rank's master of that name in host memory; empty where it is another rank's.
  base::Buffer master(const std::string& name) const;

  /// Has each of this rank's masters and moments written, masters first: fill(name, to) writes all of a tensor to host
  /// memory. With torch_ops that is one tensor's, from where it goes on. Then `refresh`.
  void fill(const std::function<void(const std::string& name, const base::View& to)>& fill);
  /// Has masters changed in host memory, a tensor at a time: change(spec, values); those that `chosen` names. Then
  /// `refresh`.
  void change_masters(const std::function<bool(const std::string& name)>& chosen,
                      const std::function<void(const std::string& name, std::span<float> values)>& change);

  /// Take masters and moments over from views of the same names and shapes, an input error where they are not; with
  /// torch_ops these may be named_masters()'s and named_moments()'s own. Then `refresh`.
  void restore_masters(const model::WeightViews& masters);
  void restore_moments(const model::WeightViews& moments);
  void clear_moments();
  /// Frees their memory: no update may follow.
  void free_moments();
  /// Until the device has done what it was told.
  void wait_for_device() const;

 private:
  /// What the forward pass reads of [begin, end) of the flat order; undefined where it reads nothing.
  struct Segment {
    std::int64_t begin = 0, end = 0;
    Tensor values;
  };

  /// What host memory holds of a flat buffer, with torch_ops; made when first asked for.
  struct HostCopies {
    Tensor masters, gradients, exp_avg, exp_avg_sq;
  };

  bool has_copies() const;  ///< the forward pass reads others than the masters
  Tensor zeros(std::int64_t count, torch::ScalarType dtype = torch::kFloat32) const;
  /// The buffer itself, or its copy, brought up to it or as it is.
  const Tensor& on_host(const Tensor& values, Tensor& copy, bool is_read) const;
  model::WeightViews master_views(const Tensor& masters) const;
  model::WeightViews moment_views(const Tensor& exp_avg, const Tensor& exp_avg_sq) const;
  void place(const std::vector<model::WeightSpec>& specs);
  void share_out();
  void make_segments();
  std::vector<std::size_t> in_order() const;  ///< placements_ by offset
  const Placement& placement(const std::string& name) const;
  Weight weight(const std::vector<std::string>& names) const;
  /// A weight that is not trained, or nothing where nothing reads it; is_packed: a table that pack_head reads.
  Weight frozen(const std::vector<std::string>& names, const model::WeightSource& base, bool is_packed) const;
  void bind_policy(const model::WeightSource& base);
  LinearAdapter bind_adapter(const std::string& prefix, const model::BlockMatrix& matrix) const;
  void pack_head();

  model::ModelConfig config_;
  ParameterOptions options_;
  std::vector<Placement> placements_;
  std::int64_t num_decayed_ = 0, first_other_ = 0, first_adamw_ = 0;  ///< of the flat order
  std::int64_t num_mine_ = 0, num_muons_ = 0;                         ///< of this rank's masters
  Tensor masters_, gradients_, exp_avg_, exp_avg_sq_;
  mutable HostCopies host_;
  mutable Tensor staging_;
  std::vector<dist::Part> gradient_parts_;
  std::vector<Segment> segments_;
  PolicyWeights policy_;
};

}  // namespace qrl::learner
