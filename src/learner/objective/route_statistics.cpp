#include "learner/objective/route_statistics.h"

#include <algorithm>

#include "base/error.h"

namespace qrl::learner {

namespace {

constexpr const char* kFlips = "moe/route_flip_fraction";
constexpr const char* kTokenFlips = "moe/token_flip_fraction";
constexpr const char* kOwnFlips = "moe/own_route_flip_fraction";
constexpr const char* kLoad = "moe/expert_load_max";

/// Indices into RouteStatistics::counts_.
enum Place : std::size_t { kRows, kComparedRows, kFlippedRows, kOwnFlipped, kFirstLayer };

std::string flips_of_layer(std::int64_t layer) { return std::string(kFlips) + "/layer_" + std::to_string(layer); }

std::vector<std::size_t> sampled_rows(const types::MicroBatch& batch) {
  std::vector<std::size_t> rows;
  for (std::int64_t s = 0; s < batch.num_sequences(); ++s) {
    const auto at = static_cast<std::size_t>(s);
    const bool is_prefix = s + 1 < batch.num_sequences() && !batch.continues(s) && batch.continues(s + 1);
    const std::int32_t end = batch.sequence_starts[at + 1] - (is_prefix ? 0 : 1);
    for (std::int32_t row = batch.sequence_starts[at]; row < end; ++row) rows.push_back(static_cast<std::size_t>(row));
  }
  return rows;
}

}  // namespace

RouteStatistics::RouteStatistics(const model::ModelConfig& config)
    : layers_(config.sparse_layers()),
      num_experts_(static_cast<std::size_t>(config.num_experts)),
      per_token_(static_cast<std::size_t>(config.num_experts_per_tok)),
      counts_(kFirstLayer + layers_.size() * (1 + num_experts_), 0) {}

void RouteStatistics::add(const types::MicroBatch& batch, const PassRoutes& routes) {
  const std::size_t row_size = layers_.size() * per_token_, size = batch.tokens.size() * row_size;
  const std::vector<std::uint8_t>& sampled = batch.sampler_routes.experts;
  QRL_INVARIANT(routes.used.size() == size && routes.own.size() == size && (sampled.empty() || sampled.size() == size),
                "routes", std::to_string(size) + " entries",
                std::to_string(routes.used.size()) + ", and of the sampler " + std::to_string(sampled.size()));
  const auto differs = [&](std::span<const std::uint8_t> of_pass, std::size_t first) {
    return !std::ranges::equal(of_pass.subspan(first, per_token_), std::span(sampled).subspan(first, per_token_));
  };
  for (const std::size_t row : sampled_rows(batch)) {
    bool any = false;
    for (std::size_t s = 0; s < layers_.size(); ++s) {
      const std::size_t first = row * row_size + s * per_token_;
      for (const std::uint8_t expert : routes.used.subspan(first, per_token_))
        ++counts_[kFirstLayer + layers_.size() + s * num_experts_ + expert];
      if (sampled.empty()) continue;
      const bool is_flip = differs(routes.used, first);
      counts_[kFirstLayer + s] += is_flip ? 1 : 0;
      counts_[kOwnFlipped] += differs(routes.own, first) ? 1 : 0;
      any = any || is_flip;
    }
    ++counts_[kRows];
    counts_[kComparedRows] += sampled.empty() ? 0 : 1;
    counts_[kFlippedRows] += any ? 1 : 0;
  }
}

std::map<std::string, double> RouteStatistics::reduce(dist::Collectives& world) {
  if (layers_.empty()) return {};
  std::vector<std::int64_t> counts(counts_.size(), 0);
  counts.swap(counts_);
  world.all_reduce_sum(std::span(counts));
  std::map<std::string, double> metrics;
  if (counts[kRows] == 0) return metrics;
  const auto num_layers = static_cast<double>(layers_.size());
  const auto most = static_cast<double>(
      *std::max_element(counts.begin() + static_cast<std::ptrdiff_t>(kFirstLayer + layers_.size()), counts.end()));
  metrics[kLoad] =
      most / static_cast<double>(counts[kRows]) * static_cast<double>(num_experts_) / static_cast<double>(per_token_);
  if (counts[kComparedRows] == 0) return metrics;
  const auto num_rows = static_cast<double>(counts[kComparedRows]);
  double flips = 0;
  for (std::size_t s = 0; s < layers_.size(); ++s) {
    const auto of_layer = static_cast<double>(counts[kFirstLayer + s]);
    metrics[flips_of_layer(layers_[s])] = of_layer / num_rows;
    flips += of_layer;
  }
  metrics[kFlips] = flips / (num_rows * num_layers);
  metrics[kTokenFlips] = static_cast<double>(counts[kFlippedRows]) / num_rows;
  metrics[kOwnFlips] = static_cast<double>(counts[kOwnFlipped]) / (num_rows * num_layers);
  return metrics;
}

std::vector<std::string> route_metric_names(const model::ModelConfig& config) {
  if (!config.has_experts()) return {};
  std::vector<std::string> names = {kFlips, kTokenFlips, kOwnFlips, kLoad};
  for (const std::int64_t layer : config.sparse_layers()) names.push_back(flips_of_layer(layer));
  return names;
}

}  // namespace qrl::learner
