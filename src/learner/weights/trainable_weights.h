// Owns a learner's weights: masters, moments, gradients, the forward pass's copies, and the frozen base of adapters.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "learner/options.h"
#include "learner/tensors/rank_tensors.h"
#include "learner/weights/parameters.h"
#include "model/adapter.h"
#include "model/weights.h"

namespace qrl::learner {

class TrainableWeights {
 public:
  /// Initializes the masters from `initial`. With options.lora, masters are adapters, and `initial` is the base, which
  /// must stay readable. `how` is the result of ForwardEngine::parameters(). Collective.
  TrainableWeights(const model::ModelConfig& config, const model::WeightSource& initial, const LearnerOptions& options,
                   ParameterOptions how, dist::Collectives& world);
  TrainableWeights(const TrainableWeights&) = delete;
  TrainableWeights& operator=(const TrainableWeights&) = delete;

  const model::ModelConfig& config() const { return parameters_.config(); }
  const model::LoraConfig& lora() const { return parameters_.options().lora; }
  bool is_sharded() const { return parameters_.layout().is_sharded(); }
  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  RankTensors& ranks() { return *ranks_; }
  dist::Collectives& world() { return world_; }
  const model::WeightSource& base() const { return base_; }

  void require_trainable() const;
  /// Collective when sharded.
  void refresh() { parameters_.refresh(*ranks_); }

  /// Implements LearnerState::master.
  base::Buffer master(const std::string& name) const;
  /// Returns a source of all ranks' masters; with adapters, these are the tensors of adapter_specs. All ranks must read
  /// the source's tensors in the same order. Collective when sharded.
  model::WeightSource trained_masters();
  /// Implements LearnerState::all_masters.
  model::WeightSource all_masters();

 private:
  dist::Collectives& world_;
  model::WeightSource base_;
  Parameters parameters_;
  std::unique_ptr<RankTensors> ranks_;
};

class ReferencePolicy {
 public:
  /// Makes the reference policy of a KL term: the base of `parameters` with the adapters `start` (adapter_specs'
  /// tensors). Without `start`, the policy has the gains of `base` and no adapters. `parameters` must outlive the
  /// policy.
  ReferencePolicy(const model::ModelConfig& config, const model::LoraConfig& lora, const Parameters& parameters,
                  const model::WeightSource& base, const std::optional<model::WeightSource>& start);
  ReferencePolicy(const ReferencePolicy&) = delete;
  ReferencePolicy& operator=(const ReferencePolicy&) = delete;

  /// Returns the policy, updated to the base that `parameters` has now. PolicyWeights::head is empty.
  const PolicyWeights& policy();

 private:
  void take_gains(const model::WeightSource& source);
  void take_adapters(const model::WeightSource& start);
  void read(const model::WeightSource& source, const std::string& name, const Tensor& to) const;

  model::ModelConfig config_;
  model::LoraConfig lora_;
  const Parameters& parameters_;
  PolicyWeights policy_;
  std::vector<model::LayerSnapshot> packed_;
};

}  // namespace qrl::learner
