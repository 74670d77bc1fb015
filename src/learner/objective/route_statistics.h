// Owns the metrics of a mixture's routes: their distance from the sampler's, and the load of experts.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dist/collectives.h"
#include "model/config.h"
#include "types/batch.h"

namespace qrl::learner {

/// A forward pass's routes of N rows, [N, S, k] each.
struct PassRoutes {
  std::span<const std::uint8_t> used;  ///< of its products
  std::span<const std::uint8_t> own;   ///< its router's choice
};

/// Counts a mini-batch's routes in the rows that the sampler computed: all but the last of each sequence. Integer
/// counts make metrics independent of packing and ranks.
class RouteStatistics {
 public:
  explicit RouteStatistics(const model::ModelConfig& config);

  /// Counts a micro-batch. Without the sampler's routes only the load counts.
  void add(const types::MicroBatch& batch, const PassRoutes& routes);

  /// Returns the metrics moe/… (docs/reference/metrics.md) over all ranks, and forgets the mini-batch. Returns nothing
  /// for a dense model or without rows.
  ///
  /// Collective.
  std::map<std::string, double> reduce(dist::Collectives& world);

 private:
  std::vector<std::int64_t> layers_;  ///< indices of sparse layers
  std::size_t num_experts_, per_token_;
  /// Rows; rows with the sampler's routes; flips of tokens and of own choices; flips by layer; rows by layer and
  /// expert.
  std::vector<std::int64_t> counts_;
};

/// Returns the metrics' names; empty for a dense model.
std::vector<std::string> route_metric_names(const model::ModelConfig& config);

}  // namespace qrl::learner
