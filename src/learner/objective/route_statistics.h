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

/// Holds the routes of N rows in a forward pass. Both members have shape [N, S, k] (types::Routes).
struct PassRoutes {
  std::span<const std::uint8_t> used;  ///< experts that the pass used
  std::span<const std::uint8_t> own;   ///< experts that the pass's router chose
};

/// Counts a mini-batch's routes in the rows that the sampler computed: all rows of a prefix, and all but the last row
/// of other sequences. Integer counts make metrics independent of packing and ranks.
class RouteStatistics {
 public:
  explicit RouteStatistics(const model::ModelConfig& config);

  /// Counts a micro-batch. If it lacks the sampler's routes, counts only the load.
  void add(const types::MicroBatch& batch, const PassRoutes& routes);

  /// Returns the metrics moe/… (docs/reference/metrics.md) over all ranks, and resets the counts. Returns nothing for a
  /// dense model or without rows.
  ///
  /// Collective.
  std::map<std::string, double> reduce(dist::Collectives& world);

 private:
  std::vector<std::int64_t> layers_;
  std::size_t num_experts_, per_token_;
  /// Holds these counts, in order:
  /// - rows;
  /// - rows with the sampler's routes;
  /// - rows with a flip: in at least one layer, PassRoutes::used differs from the sampler's routes;
  /// - pairs of row and layer in which PassRoutes::own differs from the sampler's routes;
  /// - flips of each layer;
  /// - rows of each expert, by layer.
  std::vector<std::int64_t> counts_;
};

std::vector<std::string> route_metric_names(const model::ModelConfig& config);

}  // namespace qrl::learner
