// Owns the learner's memory: fp32 masters, gradients and moments, each one flat buffer, and the packed head. Knows
// neither the forward pass nor the optimizer's arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "learner/layers.h"
#include "model/config.h"
#include "model/weights.h"
#include "ops/linear.h"

namespace qrl::learner {

/// One transformer block's weights; q, k and v are one matrix (rows in that order), gate and up another.
struct LayerWeights {
  Weight input_norm, qkv, o, post_norm, gate_up, down;
  QkvWeights transform;
};

struct PolicyWeights {
  Weight embedding;
  std::vector<LayerWeights> layers;
  Weight final_norm;
  Weight lm_head;          ///< the embedding itself when tied
  ops::PackedLinear head;  ///< lm_head as the kernels read it, in lm_head_dtype; empty unless asked for
  torch::ScalarType lm_head_dtype = torch::kBFloat16;  ///< of lm_head and of the hidden states it meets
};

/// Where a named tensor lies in the flat buffers.
struct Placement {
  model::WeightSpec spec;
  std::int64_t offset = 0;  ///< elements
};

struct ParameterOptions {
  torch::ScalarType compute = torch::kBFloat16;
  bool trainable = true;     ///< else no gradients and no moments
  bool f32_lm_head = false;  ///< lm_head meets hidden states in fp32 whatever `compute`
  bool packs_head = true;    ///< logits are of PolicyWeights::head
  bool muon = false;         ///< the layers' matrices have a first moment alone
};

/// Flat buffers in an order of our own: matrices first (weight decay applies to them: [0, num_decayed)), of these the
/// layers' before embedding and lm_head, then gains and biases; tensors that one product reads together lie together.
class Parameters {
 public:
  /// Has `initial` written into the masters, each tensor in its place.
  Parameters(const model::ModelConfig& config, const model::WeightSource& initial, const ParameterOptions& options);

  const PolicyWeights& policy() const { return policy_; }
  const std::vector<Placement>& placements() const { return placements_; }  ///< in weight_specs' order
  torch::ScalarType compute() const { return options_.compute; }

  bool trainable() const { return gradients_.defined(); }
  std::int64_t size() const { return masters_.numel(); }
  std::int64_t num_decayed() const { return num_decayed_; }
  float* masters() const { return masters_.data_ptr<float>(); }
  float* gradients() const { return gradients_.data_ptr<float>(); }
  float* exp_avg() const { return exp_avg_.data_ptr<float>(); }
  /// Elements [0, first_adamw) are Muon's and have no second moment: exp_avg_sq()[0] is that of element first_adamw.
  float* exp_avg_sq() const { return exp_avg_sq_.data_ptr<float>(); }
  std::int64_t first_adamw() const { return first_adamw_; }

  /// Packs the head from the masters, where it is wanted: after every change of the masters.
  void refresh_head();

  /// Named views into a flat buffer of size() floats, each name behind `prefix`.
  model::WeightViews views(float* flat, const std::string& prefix = {}) const;
  /// Both moments, as "exp_avg.NAME" and, where there is one, "exp_avg_sq.NAME".
  model::WeightViews moments() const;
  void clear_moments();

 private:
  void place(const std::vector<model::WeightSpec>& specs);
  Weight weight(const std::vector<std::string>& names) const;
  void bind_policy(const model::ModelConfig& config);

  ParameterOptions options_;
  std::vector<Placement> placements_;
  std::int64_t num_decayed_ = 0, first_adamw_ = 0;
  Tensor masters_, gradients_, exp_avg_, exp_avg_sq_;
  PolicyWeights policy_;
};

/// Copies every view of `from` into the view of the same name of `to`; an input error when names or shapes differ.
/// `what` names the set in the message.
void copy_views(const model::WeightViews& from, const model::WeightViews& to, const std::string& what);

}  // namespace qrl::learner
