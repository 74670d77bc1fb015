#include "learner/shards.h"

#include "dist/collectives.h"

namespace qrl::learner {

std::vector<int> shard_owners(const std::vector<model::WeightSpec>& specs, bool muon, int num_ranks) {
  std::vector<double> floats;
  for (const model::WeightSpec& spec : specs) {
    const int of_element = muon && spec.kind == model::WeightKind::linear ? 2 : 3;  // the master and its moments
    floats.push_back(of_element * static_cast<double>(spec.shape.numel()));
  }
  return dist::share_out(floats, num_ranks);
}

}  // namespace qrl::learner
