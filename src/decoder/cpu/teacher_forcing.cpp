#include "decoder/cpu/teacher_forcing.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "model/block.h"

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

template <class Chunk>
void run_forced(const Transformer& transformer, std::span<const types::TokenId> tokens, const KvCache& kv,
                const ForcedLayout& layout, std::span<const PageId> pages, Transformer::Workspace& scratch,
                const Chunk& chunk) {
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  for (std::int64_t first = 0; first < num_tokens; first += layout.chunk_tokens) {
    Plan plan(transformer.snapshot().config());
    const std::int64_t count = std::min(layout.chunk_tokens, num_tokens - first);
    for (std::int64_t i = 0; i < count; ++i) {
      plan.tokens_N.push_back(tokens[static_cast<std::size_t>(first + i)]);
      plan.positions_N.push_back(static_cast<std::int32_t>(first + i));
      plan.page_tables_N.push_back(pages.data());
      plan.states_N.push_back(0);
      plan.sample_rows.push_back(static_cast<std::int32_t>(i));
    }
    const PlanPart all{{0, count}, {0, count}, {}, {}, {}};
    base::parallel(layout.num_threads, [&](base::Team& team) {
      transformer.forward(team, plan, all, kv, scratch);
      chunk(team, first, std::span<const std::int32_t>(plan.sample_rows));
    });
  }
}

std::vector<PageId> pages_in_order(std::int64_t num_tokens, std::int64_t page_size) {
  std::vector<PageId> pages(static_cast<std::size_t>((num_tokens + page_size - 1) / page_size));
  std::iota(pages.begin(), pages.end(), 0);
  return pages;
}

}  // namespace

std::vector<float> forced_logits(const model::Snapshot& snapshot, std::span<const types::TokenId> tokens,
                                 const ForcedLayout& layout) {
  check(snapshot.config(), tokens);
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  const std::int64_t vocab_size = snapshot.config().vocab_size;
  const float logits_scaling = snapshot.config().logits_scaling;
  const std::vector<PageId> in_order = pages_in_order(num_tokens, layout.page_size);
  const std::vector<PageId>& pages = layout.pages.empty() ? in_order : layout.pages;
  QRL_INVARIANT(pages.size() == in_order.size(), "given sequence", std::to_string(in_order.size()) + " pages",
                std::to_string(pages.size()));
  KvCache kv(snapshot.config(), *std::max_element(pages.begin(), pages.end()) + 1, layout.page_size, layout.kv_format);
  kv.allocate();
  if (layout.kv_format == quant::KvFormat::fp8_e4m3) kv.set_scales(layout.kv_scales);
  const Transformer transformer(snapshot, std::min(layout.chunk_tokens, num_tokens), num_tokens);
  Transformer::Workspace scratch(snapshot);
  scratch.make_room_for_logits(vocab_size);
  std::vector<float> logits(static_cast<std::size_t>(num_tokens * vocab_size));
  run_forced(transformer, tokens, kv, layout, pages, scratch,
             [&](base::Team& team, std::int64_t first, std::span<const std::int32_t> rows) {
               for (std::size_t at = 0; at < rows.size(); at += Transformer::kLogitRows) {
                 const auto some = rows.subspan(at, std::min<std::size_t>(Transformer::kLogitRows, rows.size() - at));
                 transformer.choose_rows(team, some, scratch);
                 const float* from =
                     transformer.logits(team, static_cast<std::int64_t>(some.size()), {0, vocab_size}, scratch);
                 float* to = logits.data() + (first + static_cast<std::int64_t>(at)) * vocab_size;
                 if (team.rank() != 0) continue;
                 std::transform(from, from + static_cast<std::int64_t>(some.size()) * vocab_size, to,
                                [&](float logit) { return logit / logits_scaling; });
               }
             });
  return logits;
}

namespace {

void run_for(Transformer::Workspace& scratch, const model::Snapshot& snapshot, std::span<const types::TokenId> tokens,
             const ForcedLayout& layout) {
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  const std::vector<PageId> pages = pages_in_order(num_tokens, layout.page_size);
  KvCache kv(snapshot.config(), static_cast<std::int64_t>(pages.size()), layout.page_size, layout.kv_format);
  kv.allocate();
  const Transformer transformer(snapshot, std::min(layout.chunk_tokens, num_tokens), num_tokens);
  run_forced(transformer, tokens, kv, layout, pages, scratch,
             [](base::Team&, std::int64_t, std::span<const std::int32_t>) {});
}

}  // namespace

void observe_inputs(const model::Snapshot& snapshot, std::span<const types::TokenId> tokens, ObservedInputs& observed) {
  check(snapshot.config(), tokens);
  Transformer::Workspace scratch(snapshot);
  scratch.observed = &observed;
  run_for(scratch, snapshot, tokens, {});
}

LayerOutputs forced_layer_outputs(const model::Snapshot& snapshot, std::span<const types::TokenId> tokens,
                                  const ForcedLayout& layout) {
  check(snapshot.config(), tokens);
  LayerOutputs outputs(snapshot.config(), static_cast<std::int64_t>(tokens.size()));
  Transformer::Workspace scratch(snapshot);
  scratch.outputs = &outputs;
  run_for(scratch, snapshot, tokens, layout);
  return outputs;
}

ForcedKv forced_kv(const model::Snapshot& snapshot, std::span<const std::vector<types::TokenId>> sequences,
                   bool with_queries) {
  const model::ModelConfig& config = snapshot.config();
  const std::int64_t page_size = ForcedLayout{}.page_size;
  std::vector<Group> groups(sequences.size());
  std::vector<Sequence> given(sequences.size());
  std::vector<Sequence*> chosen;
  std::int64_t num_pages = 0, longest = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    check(config, sequences[i]);
    const auto num_tokens = static_cast<std::int64_t>(sequences[i].size());
    groups[i].request.prompt_tokens = sequences[i];
    given[i].group = &groups[i];
    given[i].num_rows = num_tokens;
    given[i].pages = pages_in_order(num_tokens, page_size);
    given[i].state = static_cast<StateSlot>(i);
    for (PageId& page : given[i].pages) page += static_cast<PageId>(num_pages);
    num_pages += static_cast<std::int64_t>(given[i].pages.size());
    longest = std::max(longest, num_tokens);
    chosen.push_back(&given[i]);
  }
  Plan plan(config);
  plan.build(chosen, base::num_threads(), snapshot.num_bytes() <= kCachedWeightBytes);
  ForcedKv forced{KvCache(config, num_pages, page_size, quant::KvFormat::f32, std::ssize(sequences)), {}, 0};
  forced.kv.allocate();
  forced.num_parts = static_cast<std::int64_t>(plan.parts.size());
  const Transformer transformer(snapshot, plan.num_rows(), longest);
  std::vector<Transformer::Workspace> workspaces;
  while (workspaces.size() < plan.parts.size()) workspaces.emplace_back(snapshot);
  if (with_queries) forced.queries.emplace(config, plan.num_rows());
  for (Transformer::Workspace& workspace : workspaces) workspace.queries = with_queries ? &*forced.queries : nullptr;
  base::parallel(0, [&](base::Team& all) {
    plan.share_out(all, [&](base::Team& team, const PlanPart& part, std::size_t part_idx) {
      transformer.forward(team, plan, part, forced.kv, workspaces[part_idx]);
    });
  });
  for (Sequence& sequence : given) forced.pages.push_back(std::move(sequence.pages));
  return forced;
}

model::ChannelRanges channel_ranges(const model::Snapshot& snapshot,
                                    std::span<const std::vector<types::TokenId>> sequences) {
  QRL_REQUIRE(!sequences.empty(), "calibration of activations", "one prompt or more", "no prompts");
  const model::ModelConfig& config = snapshot.config();
  ObservedInputs observed(config);
  for (const std::vector<types::TokenId>& sequence : sequences) observe_inputs(snapshot, sequence, observed);
  model::ChannelRanges ranges;
  for (std::int64_t idx = 0; idx < config.num_hidden_layers; ++idx) {
    const auto add = [&](const model::BlockMatrix& matrix, const auto& of) {
      if (matrix.norm.empty()) return;
      base::Buffer amax_D(base::DType::f32, {matrix.in});
      std::copy_n(of(observed.amax_L[static_cast<std::size_t>(idx)]).data(), matrix.in, amax_D.as<float>());
      ranges.emplace(model::layer_prefix(idx) + std::string(matrix.norm) + ".weight", std::move(amax_D));
    };
    // Experts need no entry of their own: they read the router's norm.
    model::visit_matrices(config, idx, add, [](const model::BlockExperts&, const auto&) {});
  }
  return ranges;
}

}  // namespace qrl::decoder
