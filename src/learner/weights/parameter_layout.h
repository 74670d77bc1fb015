#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dist/collectives.h"
#include "model/adapter.h"
#include "model/config.h"

namespace qrl::learner {

/// Assigns each of `specs` to a rank, balanced by bytes. Tensors are not split, because Muon and a checkpoint's shards
/// need whole tensors. `muon`: the layers' matrices have only one moment.
std::vector<int> shard_owners(const std::vector<model::WeightSpec>& specs, bool muon, int num_ranks);

struct Placement {
  model::WeightSpec spec;
  std::int64_t offset = 0;        ///< first element in the gradients
  int owner = 0;                  ///< rank that owns the tensor's master and moments
  std::int64_t owned_offset = 0;  ///< first element in the owner's masters and moments
};

struct AdamwSegment {
  std::int64_t offset = 0, owned_offset = 0, count = 0;
  bool decays = false;
};

struct GradientRange {
  std::int64_t begin = 0, count = 0;
  std::int64_t end() const { return begin + count; }
  bool holds(std::int64_t offset) const { return offset >= begin && offset < end(); }
};

struct LayoutOptions {
  bool muon = false;  ///< whether the layers' matrices have only a first moment
  /// If lora.rank is above 0, the trained tensors are model::adapter_specs, unsharded.
  model::LoraConfig lora = {};
  /// With several `shards`, masters and moments are divided over ranks (shard_owners).
  int rank = 0, shards = 1;
};

/// Returns whether a weight is neither a gain nor a bias.
bool is_matrix(const model::WeightSpec& spec);

/// Places all tensors in flat buffers, in this order: the layers' matrices; embedding and lm_head; gains and biases,
/// which have no weight decay. Tensors of one matmul are adjacent. The gradients' buffer has all tensors. The buffers
/// of masters and moments have only this rank's tensors.
class ParameterLayout {
 public:
  ParameterLayout(const model::ModelConfig& config, const LayoutOptions& options);

  const std::vector<Placement>& placements() const { return placements_; }  ///< in weight_specs' order
  const Placement& placement(const std::string& name) const;
  bool contains(const std::string& name) const;

  bool is_sharded() const { return options_.shards > 1; }
  bool is_mine(const Placement& placement) const { return placement.owner == options_.rank; }
  bool is_muons(const Placement& placement) const { return placement.offset < first_adamw_; }
  std::int64_t num_mine() const { return num_mine_; }    ///< number of elements of this rank's masters
  std::int64_t num_muons() const { return num_muons_; }  ///< number of leading elements without second moment

  GradientRange layer(std::size_t idx) const;  ///< a layer's matrices
  GradientRange layers() const { return {0, first_other_}; }
  GradientRange tables() const { return {first_other_, num_decayed_ - first_other_}; }  ///< embedding and lm_head
  GradientRange vectors() const { return {num_decayed_, size_ - num_decayed_}; }        ///< gains and biases
  GradientRange others() const { return {first_other_, size_ - first_other_}; }         ///< all but layers()
  GradientRange all() const { return {0, size_}; }

  /// Returns the ranges that ranks exchange one after another in a publish: each layer's matrices, each table, and all
  /// gains and biases.
  std::vector<GradientRange> published() const;
  /// Returns the range's tensors with their owners. Offsets count from the range's beginning.
  std::vector<dist::Part> parts(const GradientRange& range) const;
  /// Returns this rank's AdamW segments in the range, with adjacent tensors merged.
  std::vector<AdamwSegment> adamw_segments(const GradientRange& range) const;

 private:
  void place(const model::ModelConfig& config, const std::vector<model::WeightSpec>& specs);
  void share_out();
  std::vector<std::size_t> in_order() const;  ///< indices into placements_, sorted by offset

  LayoutOptions options_;
  std::vector<Placement> placements_;
  std::vector<dist::Part> parts_;
  std::int64_t size_ = 0, num_decayed_ = 0, first_other_ = 0, first_adamw_ = 0;  ///< offsets in the gradients
  std::int64_t num_mine_ = 0, num_muons_ = 0;
};

}  // namespace qrl::learner
