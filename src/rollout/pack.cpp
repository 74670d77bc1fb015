#include <algorithm>
#include <map>

#include "base/error.h"
#include "rollout/rollout.h"

namespace qrl::rollout {

namespace {

std::int64_t length(const PackItem& item) {
  return static_cast<std::int64_t>(item.prompt.size() + item.response.size());
}

bool has_kept(const PackItem& item) { return item.kept != nullptr && !item.kept->empty(); }
bool has_routes(const PackItem& item) { return item.routes != nullptr && !item.routes->empty(); }

void check(const PackItem& item, std::int64_t max_tokens) {
  QRL_INVARIANT(!item.prompt.empty(), "packer", "a prompt of one token or more", "an empty prompt");
  QRL_INVARIANT(item.sampler_logprobs.empty() || item.sampler_logprobs.size() == item.response.size(), "packer",
                "a sampler log-prob per response token", std::to_string(item.sampler_logprobs.size()));
  QRL_INVARIANT(!has_kept(item) || item.kept->size() == item.response.size(), "packer",
                "a set of kept tokens per response token", std::to_string(item.kept->size()));
  QRL_INVARIANT(!has_routes(item) || item.routes->num_tokens() == length(item) - 1, "packer",
                "a route per token but the last, " + std::to_string(length(item) - 1),
                std::to_string(item.routes->num_tokens()));
  QRL_INVARIANT(item.learned.empty() || item.learned.size() == item.response.size(), "packer",
                "a mark per response token", std::to_string(item.learned.size()));
  QRL_REQUIRE(length(item) <= max_tokens, "actor.max_tokens_per_micro_batch",
              "at least the longest sequence (" + std::to_string(length(item)) + " tokens)", std::to_string(max_tokens),
              "raise it, or lower data.max_response_length");
}

/// Holds one prompt's items, longest first.
struct Group {
  std::vector<std::size_t> items;
  std::int64_t num_prefix_tokens = 0;  ///< tokens of the shared prefix
  std::int64_t num_tokens = 0;         ///< tokens of the whole group if packed into one micro-batch
};

std::vector<Group> groups_of(std::span<const PackItem> items) {
  std::map<std::pair<const types::TokenId*, std::size_t>, std::size_t> group_of;
  std::vector<Group> groups;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto [entry, is_new] = group_of.try_emplace({items[i].prompt.data(), items[i].prompt.size()}, groups.size());
    if (is_new) groups.emplace_back();
    groups[entry->second].items.push_back(i);
  }
  for (Group& group : groups) {
    std::ranges::stable_sort(group.items,
                             [&](std::size_t a, std::size_t b) { return length(items[a]) > length(items[b]); });
    if (group.items.size() > 1)
      group.num_prefix_tokens = static_cast<std::int64_t>(items[group.items.front()].prompt.size()) - 1;
    group.num_tokens = group.num_prefix_tokens;
    for (const std::size_t i : group.items) group.num_tokens += length(items[i]) - group.num_prefix_tokens;
  }
  std::ranges::stable_sort(groups, [](const Group& a, const Group& b) { return a.num_tokens > b.num_tokens; });
  return groups;
}

void append_tokens(std::span<const types::TokenId> tokens, types::MicroBatch& batch) {
  batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
  batch.targets.resize(batch.tokens.size(), 0);
  batch.loss_mask.resize(batch.tokens.size(), 0);
  batch.sampler_logprobs.resize(batch.tokens.size(), 0.0F);
  batch.advantages.resize(batch.tokens.size(), 0.0F);
}

/// Appends the routes of an item's tokens [first, end). The item's last token has no route, and gets experts 0 … k − 1.
void append_routes(const PackItem& item, std::size_t first, std::size_t end, types::MicroBatch& batch) {
  if (!has_routes(item)) return;
  const types::Routes& from = *item.routes;
  types::Routes& to = batch.sampler_routes;
  QRL_INVARIANT(to.empty() || (to.num_layers == from.num_layers && to.per_token == from.per_token), "packer",
                "routes of one model", "routes of two models");
  to.num_layers = from.num_layers;
  to.per_token = from.per_token;
  const auto known = std::min(end, static_cast<std::size_t>(from.num_tokens()));
  for (std::size_t token = first; token < known; ++token) {
    const std::span<const std::uint8_t> route = from.of_token(token);
    to.experts.insert(to.experts.end(), route.begin(), route.end());
  }
  for (std::size_t i = 0; i < (end - std::max(first, known)) * from.token_bytes(); ++i)
    to.experts.push_back(static_cast<std::uint8_t>(i % static_cast<std::size_t>(from.per_token)));
}

void end_sequence(std::int64_t index, bool continues, types::MicroBatch& batch) {
  batch.sequence_starts.push_back(static_cast<std::int32_t>(batch.tokens.size()));
  batch.sequence_idx.push_back(index);
  batch.continues_prefix.push_back(continues ? 1 : 0);
}

/// Appends an item without its first num_prefix_tokens tokens, which the batch's last prefix already holds.
void append_item(const PackItem& item, std::int64_t index, std::int64_t num_prefix_tokens, types::MicroBatch& batch) {
  const std::size_t first = batch.tokens.size();
  const auto own_prompt = item.prompt.subspan(static_cast<std::size_t>(num_prefix_tokens));
  append_tokens(own_prompt, batch);
  append_tokens(item.response, batch);
  append_routes(item, static_cast<std::size_t>(num_prefix_tokens), static_cast<std::size_t>(length(item)), batch);
  const std::size_t end = batch.tokens.size();
  for (std::size_t t = first; t + 1 < end; ++t) batch.targets[t] = batch.tokens[t + 1];
  for (std::size_t t = first; t < end; ++t) batch.advantages[t] = item.advantage;
  // Entry t describes token t+1: the last prompt token predicts the first response token.
  const std::size_t first_entry = first + own_prompt.size() - 1;
  for (std::size_t k = 0; k < item.response.size(); ++k) {
    batch.loss_mask[first_entry + k] = item.learned.empty() || item.learned[k] != 0 ? 1 : 0;
    if (!item.sampler_logprobs.empty()) batch.sampler_logprobs[first_entry + k] = item.sampler_logprobs[k];
  }
  if (has_kept(item)) {
    batch.kept.fill(first_entry);
    for (std::size_t k = 0; k < item.response.size(); ++k) batch.kept.add((*item.kept)[k]);
  }
  end_sequence(index, num_prefix_tokens > 0, batch);
}

types::MicroBatch& new_batch(std::vector<types::MicroBatch>& batches) {
  batches.emplace_back().sequence_starts = {0};
  return batches.back();
}

}  // namespace

PackItem sampled_item(std::span<const types::TokenId> prompt, const types::Completion& sample, float advantage) {
  return {prompt, sample.tokens, sample.sampler_logprobs, advantage, sample.sampled, &sample.kept, &sample.routes};
}

std::vector<types::MicroBatch> pack(std::span<const PackItem> items, std::int64_t max_tokens) {
  for (const PackItem& item : items) {
    check(item, max_tokens);
    QRL_INVARIANT(has_routes(item) == has_routes(items.front()), "packer", "routes of all items, or of none",
                  "routes of only some items");
  }
  std::vector<types::MicroBatch> batches;
  for (const Group& group : groups_of(items)) {
    const auto has_room = [&](const types::MicroBatch& batch) {
      return batch.num_tokens() + group.num_tokens <= max_tokens;
    };
    const auto found = std::ranges::find_if(batches, has_room);
    types::MicroBatch* batch = found != batches.end() ? &*found : &new_batch(batches);
    bool has_prefix = false;
    for (const std::size_t i : group.items) {
      const std::int64_t own_tokens = length(items[i]) - group.num_prefix_tokens;
      if (batch->num_tokens() + own_tokens + (has_prefix ? 0 : group.num_prefix_tokens) > max_tokens) {
        batch = &new_batch(batches);
        has_prefix = false;
      }
      if (!has_prefix && group.num_prefix_tokens > 0) {
        const auto num_shared = static_cast<std::size_t>(group.num_prefix_tokens);
        append_tokens(items[i].prompt.first(num_shared), *batch);
        append_routes(items[i], 0, num_shared, *batch);
        end_sequence(-1, false, *batch);
        has_prefix = true;
      }
      append_item(items[i], static_cast<std::int64_t>(i), group.num_prefix_tokens, *batch);
    }
  }
  return batches;
}

types::GlobalCounts count(std::span<const types::MicroBatch> batches) {
  types::GlobalCounts counts;
  for (const types::MicroBatch& batch : batches) {
    for (std::size_t s = 0; s + 1 < batch.sequence_starts.size(); ++s) {
      const auto mask = std::span(batch.loss_mask)
                            .subspan(static_cast<std::size_t>(batch.sequence_starts[s]),
                                     static_cast<std::size_t>(batch.sequence_starts[s + 1] - batch.sequence_starts[s]));
      const std::int64_t tokens = std::ranges::count(mask, std::uint8_t{1});
      counts.response_tokens += tokens;
      counts.sequences += tokens > 0 ? 1 : 0;
    }
  }
  return counts;
}

}  // namespace qrl::rollout
