// Owns the policy that a KL term is against where adapters are trained: the same base with the adapters that training
// began with. Knows no loss.
#pragma once

#include <optional>
#include <vector>

#include "learner/parameters.h"
#include "model/adapter.h"

namespace qrl::learner {

class ReferencePolicy {
 public:
  /// `start`: adapter_specs' tensors; none: new adapters, which add nothing, so that the layers have none, and the
  /// gains of `base`. `parameters` must outlive it.
  ReferencePolicy(const model::ModelConfig& config, const model::LoraConfig& lora, const Parameters& parameters,
                  const model::WeightSource& base, const std::optional<model::WeightSource>& start);
  ReferencePolicy(const ReferencePolicy&) = delete;
  ReferencePolicy& operator=(const ReferencePolicy&) = delete;

  /// Returns the policy on the base as the parameters have it now, without PolicyWeights::head, which is theirs.
  const PolicyWeights& policy();

 private:
  void take_gains(const model::WeightSource& source);
  void take_adapters(const model::WeightSource& start);
  void read(const model::WeightSource& source, const std::string& name, const Tensor& to) const;

  model::ModelConfig config_;
  model::LoraConfig lora_;
  const Parameters& parameters_;
  PolicyWeights policy_;
  std::vector<model::LayerSnapshot> packed_;  ///< of its adapters alone
};

}  // namespace qrl::learner
