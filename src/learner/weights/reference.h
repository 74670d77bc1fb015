#pragma once

#include <optional>
#include <vector>

#include "learner/weights/parameters.h"
#include "model/adapter.h"

namespace qrl::learner {

class ReferencePolicy {
 public:
  /// Makes the reference policy of a KL term with adapters: the same base, with the adapters `start` (adapter_specs'
  /// tensors). Without `start`, has no adapters and the gains of `base`. `parameters` must outlive it.
  ReferencePolicy(const model::ModelConfig& config, const model::LoraConfig& lora, const Parameters& parameters,
                  const model::WeightSource& base, const std::optional<model::WeightSource>& start);
  ReferencePolicy(const ReferencePolicy&) = delete;
  ReferencePolicy& operator=(const ReferencePolicy&) = delete;

  /// Returns the policy on the parameters' current base, without PolicyWeights::head.
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
