#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "rollout/rollout.h"

namespace qrl::rollout {

namespace {

std::int64_t length(const PackItem& item) {
  return static_cast<std::int64_t>(item.prompt.size() + item.response.size());
}

void append(const PackItem& item, std::int64_t index, types::MicroBatch& batch) {
  const std::size_t first = batch.tokens.size();
  batch.tokens.insert(batch.tokens.end(), item.prompt.begin(), item.prompt.end());
  batch.tokens.insert(batch.tokens.end(), item.response.begin(), item.response.end());
  const std::size_t end = batch.tokens.size();
  batch.sequence_starts.push_back(static_cast<std::int32_t>(end));
  batch.sequence_idx.push_back(index);
  batch.targets.resize(end, 0);
  batch.loss_mask.resize(end, 0);
  batch.sampler_logprobs.resize(end, 0.0F);
  batch.advantages.resize(end, item.advantage);
  for (std::size_t t = first; t + 1 < end; ++t) batch.targets[t] = batch.tokens[t + 1];
  // Entry t is about token t+1: the first response token is predicted by the last prompt token.
  const std::size_t first_entry = first + item.prompt.size() - 1;
  for (std::size_t k = 0; k < item.response.size(); ++k) {
    batch.loss_mask[first_entry + k] = 1;
    if (!item.sampler_logprobs.empty()) batch.sampler_logprobs[first_entry + k] = item.sampler_logprobs[k];
  }
}

}  // namespace

std::vector<types::MicroBatch> pack(std::span<const PackItem> items, std::int64_t max_tokens) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return length(items[a]) > length(items[b]); });
  std::vector<types::MicroBatch> batches;
  for (const std::size_t i : order) {
    const PackItem& item = items[i];
    QRL_INVARIANT(!item.prompt.empty(), "packer", "a prompt of one token or more", "an empty prompt");
    QRL_INVARIANT(item.sampler_logprobs.empty() || item.sampler_logprobs.size() == item.response.size(), "packer",
                  "a sampler log-prob per response token", std::to_string(item.sampler_logprobs.size()));
    QRL_REQUIRE(length(item) <= max_tokens, "actor.max_tokens_per_micro_batch",
                "at least the longest sequence (" + std::to_string(length(item)) + " tokens)",
                std::to_string(max_tokens), "raise it, or lower data.max_response_length");
    const auto room = std::find_if(batches.begin(), batches.end(), [&](const types::MicroBatch& batch) {
      return batch.num_tokens() + length(item) <= max_tokens;
    });
    if (room == batches.end()) {
      batches.emplace_back().sequence_starts = {0};
      append(item, static_cast<std::int64_t>(i), batches.back());
    } else {
      append(item, static_cast<std::int64_t>(i), *room);
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
      const std::int64_t tokens = std::count(mask.begin(), mask.end(), std::uint8_t{1});
      counts.response_tokens += tokens;
      counts.sequences += tokens > 0 ? 1 : 0;
    }
  }
  return counts;
}

}  // namespace qrl::rollout
