#include "decoder/forced.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "decoder/transformer.h"

namespace qrl::decoder {

namespace {

void check(const model::ModelConfig& config, std::span<const types::TokenId> tokens) {
  QRL_REQUIRE(!tokens.empty() && static_cast<std::int64_t>(tokens.size()) <= config.max_position_embeddings,
              "given sequence",
              "1 to max_position_embeddings = " + std::to_string(config.max_position_embeddings) + " tokens",
              std::to_string(tokens.size()));
  for (const types::TokenId token : tokens) {
    QRL_REQUIRE(token >= 0 && token < config.vocab_size, "given sequence",
                "tokens below the model's vocab_size = " + std::to_string(config.vocab_size), std::to_string(token));
  }
}

}  // namespace

std::vector<float> forced_logits(const model::Snapshot& snapshot, std::span<const types::TokenId> tokens,
                                 const ForcedLayout& layout) {
  check(snapshot.config(), tokens);
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  const std::int64_t vocab_size = snapshot.config().vocab_size;
  const std::int64_t num_pages = (num_tokens + layout.page_size - 1) / layout.page_size;
  std::vector<PageId> pages = layout.pages;
  if (pages.empty()) {
    pages.resize(static_cast<std::size_t>(num_pages));
    std::iota(pages.begin(), pages.end(), 0);
  }
  QRL_INVARIANT(static_cast<std::int64_t>(pages.size()) == num_pages, "given sequence",
                std::to_string(num_pages) + " pages", std::to_string(pages.size()));
  KvCache kv(snapshot.config(), *std::max_element(pages.begin(), pages.end()) + 1, layout.page_size, layout.kv_dtype);
  kv.allocate();
  const std::int64_t chunk_tokens = std::min(layout.chunk_tokens, num_tokens);
  Transformer transformer(snapshot, chunk_tokens, num_tokens);
  Transformer::Workspace scratch(snapshot);
  std::vector<float> logits(static_cast<std::size_t>(num_tokens * vocab_size));
  for (std::int64_t first = 0; first < num_tokens; first += chunk_tokens) {
    Plan plan(snapshot.config());
    const std::int64_t count = std::min(chunk_tokens, num_tokens - first);
    for (std::int64_t i = 0; i < count; ++i) {
      plan.tokens_N.push_back(tokens[static_cast<std::size_t>(first + i)]);
      plan.positions_N.push_back(static_cast<std::int32_t>(first + i));
      plan.page_tables_N.push_back(pages.data());
      plan.draw_rows.push_back(static_cast<std::int32_t>(i));
    }
    const PlanPart all{{0, count}, {0, count}, {0, 0}};
    base::parallel(layout.num_threads, [&](base::Team& team) {
      transformer.forward(team, plan, all, kv, scratch);
      for (std::int64_t at = 0; at < count; at += Transformer::kLogitRows) {
        const std::int64_t rows = std::min(Transformer::kLogitRows, count - at);
        const float* from = transformer.logits(
            team, std::span(plan.draw_rows).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(rows)),
            scratch);
        if (team.rank() == 0) std::copy_n(from, rows * vocab_size, logits.data() + (first + at) * vocab_size);
      }
    });
  }
  return logits;
}

}  // namespace qrl::decoder
