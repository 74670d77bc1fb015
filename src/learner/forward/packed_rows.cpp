#include "learner/forward/packed_rows.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace qrl::learner {

namespace {

void check_batch(const types::MicroBatch& batch, const model::ModelConfig& config) {
  const auto n = batch.tokens.size();
  const auto& starts = batch.sequence_starts;
  QRL_INVARIANT(starts.size() >= 2 && starts.front() == 0 && starts.back() == batch.num_tokens() &&
                    std::is_sorted(starts.begin(), starts.end()),
                "micro-batch", "ascending sequence_starts from 0 to N", std::to_string(starts.size()) + " entries");
  QRL_INVARIANT(batch.continues_prefix.empty() ||
                    (batch.continues_prefix.size() + 1 == starts.size() && batch.continues_prefix.front() == 0),
                "micro-batch", "continues_prefix of S entries, the first 0",
                std::to_string(batch.continues_prefix.size()) + " entries");
  QRL_INVARIANT(batch.targets.size() == n && batch.loss_mask.size() == n, "micro-batch",
                "targets and loss_mask of N entries", std::to_string(batch.targets.size()));
  const auto outside = [&](types::TokenId token) { return token < 0 || token >= config.vocab_size; };
  QRL_REQUIRE(std::none_of(batch.tokens.begin(), batch.tokens.end(), outside) &&
                  std::none_of(batch.targets.begin(), batch.targets.end(), outside),
              "micro-batch", "token ids from 0 to below vocab_size = " + std::to_string(config.vocab_size),
              "a token id outside this range");
}

}  // namespace

std::shared_ptr<RowRoutes> make_routes(const model::ModelConfig& config, std::int64_t num_rows) {
  if (!config.has_experts()) return nullptr;
  const auto routes = std::make_shared<RowRoutes>();
  routes->num_layers = config.num_sparse_layers();
  routes->per_token = config.num_experts_per_tok;
  routes->own.resize(static_cast<std::size_t>(routes->at(num_rows, 0)));
  routes->chosen.resize(static_cast<std::size_t>(routes->num_layers));
  return routes;
}

types::Routes used_routes(RowRoutes& routes) {
  return {static_cast<std::int32_t>(routes.num_layers), static_cast<std::int32_t>(routes.per_token), routes.used()};
}

namespace {

void replay(const types::Routes& given, std::int64_t num_rows, RowRoutes& routes) {
  QRL_INVARIANT(
      given.num_layers == routes.num_layers && given.per_token == routes.per_token && given.num_tokens() == num_rows,
      "micro-batch",
      "routes to replay of " + std::to_string(num_rows) + " tokens in " + std::to_string(routes.num_layers) + " layers",
      std::to_string(given.num_tokens()) + " in " + std::to_string(given.num_layers));
  routes.given = given.experts;
}

}  // namespace

PackedRows MicroBatchPacker::rows(const types::MicroBatch& batch) {
  check_batch(batch, config_);
  PackedRows rows;
  rows.tokens = batch.tokens;
  rows.sequence_starts = batch.sequence_starts;
  rows.continues_prefix = batch.continues_prefix;
  rows.positions.resize(batch.tokens.size());
  std::int32_t longest = 0, prefix_length = 0;
  for (std::int64_t s = 0; s < batch.num_sequences(); ++s) {
    const std::int32_t begin = batch.sequence_starts[static_cast<std::size_t>(s)];
    const std::int32_t end = batch.sequence_starts[static_cast<std::size_t>(s + 1)];
    if (!batch.continues(s)) prefix_length = end - begin;
    const std::int32_t first_position = batch.continues(s) ? prefix_length : 0;
    longest = std::max(longest, first_position + end - begin);
    for (std::int32_t t = begin; t < end; ++t) rows.positions[static_cast<std::size_t>(t)] = first_position + t - begin;
  }
  QRL_REQUIRE(longest <= config_.max_position_embeddings, "micro-batch",
              "sequences of at most max_position_embeddings = " + std::to_string(config_.max_position_embeddings),
              std::to_string(longest) + " tokens");
  if (ropes_.max_positions() < longest)
    ropes_ = model::RopeTables(config_, std::min<std::int64_t>(2 * longest, config_.max_position_embeddings));
  rows.rope_table = ropes_.of(model::RopeKind::common).as<float>();
  if (config_.sliding_rope_theta > 0) rows.sliding_rope_table = ropes_.of(model::RopeKind::sliding).as<float>();
  rows.routes = make_routes(config_, rows.num_rows());
  const types::Routes* replayed = batch.replayed();
  QRL_INVARIANT(replayed == nullptr || rows.routes != nullptr, "micro-batch", "no routes to replay in a dense model",
                "routes");
  if (replayed != nullptr) replay(*replayed, rows.num_rows(), *rows.routes);
  return rows;
}

TargetRows MicroBatchPacker::targets(const types::MicroBatch& batch, const ops::SampleParams& sample_params) const {
  QRL_REQUIRE(sample_params.temperature > 0, "temperature",
              "a temperature above 0 (greedy sampling leaves nothing to train on)",
              std::to_string(sample_params.temperature));
  TargetRows targets;
  targets.temperature = sample_params.temperature * config_.logits_scaling;
  targets.chunk_tokens = chunk_tokens_;
  for (std::size_t t = 0; t < batch.loss_mask.size(); ++t) {
    if (batch.loss_mask[t] == 0) continue;
    targets.rows.push_back(static_cast<std::int64_t>(t));
    targets.targets.push_back(batch.targets[t]);
    if (!sample_params.cuts()) continue;
    const auto kept = t < batch.kept.size() ? batch.kept[t] : std::span<const types::TokenId>();
    QRL_INVARIANT(std::ranges::binary_search(kept, batch.targets[t]), "micro-batch",
                  "with top-k or top-p, the tokens that each target was sampled from, including the target",
                  std::to_string(kept.size()) + " tokens without " + std::to_string(batch.targets[t]));
    targets.kept.push_back(kept);
  }
  return targets;
}

}  // namespace qrl::learner
