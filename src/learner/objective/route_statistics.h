// Owns the metrics of a mixture's routes: how far the learner's are from the sampler's, and how experts are loaded.
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

/// Counts a mini-batch's routes in the rows that the sampler computed: all but the last of each sequence. The counts
/// are integers, so that metrics do not depend on the division into micro-batches and ranks.
class RouteStatistics {
 public:
  explicit RouteStatistics(const model::ModelConfig& config);

  /// Counts a micro-batch. Without the sampler's routes only the load counts.
  void add(const types::MicroBatch& batch, const PassRoutes& routes);

  /// Returns the metrics over all ranks, and forgets the mini-batch. Nothing for a dense model or without rows:
  /// - moe/route_flip_fraction: the share of (row, sparse layer) whose experts in use differ from the sampler's; with
  ///   /layer_N, of that layer;
  /// - moe/token_flip_fraction: the share of rows with such a layer;
  /// - moe/own_route_flip_fraction: the first share, of the router's choice;
  /// - moe/expert_load_max: the largest share of a layer's rows that use an expert, times M / k; 1: all are equal.
  ///
  /// Collective.
  std::map<std::string, double> reduce(dist::Collectives& world);

 private:
  std::vector<std::int64_t> layers_;  ///< the sparse ones
  std::size_t num_experts_, per_token_;
  /// Rows; rows with the sampler's routes; flips of tokens and of own choices; flips by layer; then rows by layer and
  /// expert.
  std::vector<std::int64_t> counts_;
};

/// Returns the metrics' names; empty for a dense model.
std::vector<std::string> route_metric_names(const model::ModelConfig& config);

}  // namespace qrl::learner
