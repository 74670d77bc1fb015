#include <algorithm>
#include <functional>
#include <string>

#include "base/error.h"
#include "cuda/attention/kv.h"
#include "cuda/engine/engine_state.h"
#include "cuda/quantize/rows.h"
#include "cuda/runtime/out_of_memory.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

using quant::KvFormat;

void DeviceSequenceScorer::kv_percentiles(const Tick& tick, std::int64_t num_above, std::span<float> keys_LK,
                                          std::span<float> values_LK) {
  const auto wanted =
      static_cast<std::size_t>(engine_.options.model.num_hidden_layers * engine_.options.model.num_key_value_heads);
  const auto num_pages = static_cast<std::int64_t>(tick.page_ids.size());
  engine_.check(tick, num_pages);
  QRL_INVARIANT(keys_LK.size() == wanted && values_LK.size() == wanted && tick.copies.empty() && num_above >= 0,
                "KV percentiles", std::to_string(wanted) + " places of each and no copies",
                std::to_string(keys_LK.size()) + " and " + std::to_string(tick.copies.size()));
  const KvLayout at = engine_.kv.layout(KvFormat::bf16);
  PageMemory memory;  // zero in unused slots, as kv_percentiles requires
  Memory found;
  with_memory({kUtilization, "a layer's keys and values to calibrate on", kLowerIt}, [&] {
    memory = PageMemory(KvFormat::bf16, at, num_pages, 1);
    found = Memory(2 * wanted * sizeof(float));
  });
  KvPages pages{KvFormat::bf16, at, engine_.options.model.head_dim};
  pages.keys = memory.keys.as<std::uint8_t>();
  pages.values = memory.values.as<std::uint8_t>();
  engine_.drain();
  const TickArrays arrays = engine_.tick.send(tick, {}, engine_.stream);
  engine_.blocks.embed(arrays, engine_.head.sampled_tokens(), engine_.stream);
  for (std::size_t i = 0; i < engine_.weights.num_layers(); ++i) {
    float* keys_K = found.as<float>() + static_cast<std::int64_t>(i) * engine_.options.model.num_key_value_heads;
    engine_.blocks.store(i, arrays, pages, engine_.stream);
    QRL_CUDA_TARGET::kv_percentiles(
        {pages.keys, pages.values, at, num_pages, static_cast<std::uint32_t>(num_above), keys_K, keys_K + wanted},
        engine_.stream);
    engine_.blocks.attend(i, arrays, pages, engine_.stream);
  }
  copy_to_host(keys_LK.data(), found.data(), keys_LK.size_bytes(), engine_.stream);
  copy_to_host(values_LK.data(), found.as<float>() + wanted, values_LK.size_bytes(), engine_.stream);
  engine_.wait();
}

void DeviceSequenceScorer::forward(std::span<const Tick> ticks, std::int64_t num_pages,
                                   std::span<float* const> after_layer, CallersStream stream) {
  QRL_INVARIANT(
      after_layer.size() == engine_.weights.num_layers() && engine_.kv.has_scales(), "forward pass",
      "memory after each of " + std::to_string(engine_.weights.num_layers()) + " layers, and calibrated KV scales",
      std::to_string(after_layer.size()));
  for (const float* layer : after_layer) engine_.require_on_device(layer, "forward pass, after a layer");
  for (const Tick& tick : ticks) engine_.check(tick, num_pages);
  enter_device(engine_.device);
  engine_.drain();
  Stream(stream.handle).wait();  // the stream may still use memory that this call writes
  while (forward_ticks_.size() > ticks.size()) forward_ticks_.pop_back();
  with_memory({"rollout.bitwise", "a layer's keys and values of a micro-batch",
               "lower rollout.gpu_memory_utilization or actor.max_tokens_per_micro_batch"},
              [&] {
                (void)engine_.kv.shared_pages(num_pages, 0);
                while (forward_ticks_.size() < ticks.size()) forward_ticks_.emplace_back(engine_.options);
              });
  std::vector<TickArrays> arrays;
  for (std::size_t t = 0; t < ticks.size(); ++t) arrays.push_back(forward_ticks_[t].send(ticks[t], {}, engine_.stream));
  for (std::size_t i = 0; i < after_layer.size(); ++i) {
    const KvPages pages = engine_.kv.shared_pages(num_pages, i);
    std::int64_t first = 0;
    for (std::size_t t = 0; t < ticks.size(); ++t) {
      const std::int64_t num_rows = arrays[t].shape.rows;
      if (i == 0) engine_.blocks.embed(arrays[t], engine_.head.sampled_tokens(), engine_.stream);
      else engine_.blocks.resume(after_layer[i - 1] + first, num_rows, engine_.stream);
      engine_.blocks.store(i, arrays[t], pages, engine_.stream);
      const auto num_copies = static_cast<std::int64_t>(ticks[t].copies.size());
      if (num_copies > 0) copy_slots({arrays[t].copies, pages}, num_copies, engine_.stream);
      engine_.blocks.attend(i, arrays[t], pages, engine_.stream);
      const ResidualRows rows = engine_.blocks.rows();
      add_rows({rows.x, rows.branch, engine_.options.model.hidden_size, after_layer[i] + first}, num_rows,
               engine_.stream);
      first += num_rows * engine_.options.model.hidden_size;
    }
  }
  engine_.wait();
}

void DeviceSequenceScorer::score(const float* x, const Targets& targets, std::span<TokenScore> scores,
                                 CallersStream stream) {
  const auto in_vocabulary = [&](std::int32_t token) { return 0 <= token && token < engine_.options.model.vocab_size; };
  QRL_INVARIANT(targets.rows.size() == targets.tokens.size() && scores.size() == targets.rows.size() &&
                    targets.temperature > 0 && std::ranges::all_of(targets.tokens, in_vocabulary),
                "scores", "a token in " + range_text(engine_.options.model.vocab_size) + " and a place per row",
                std::to_string(targets.tokens.size()) + " tokens");
  QRL_INVARIANT(targets.kept.empty() || targets.kept.size() == targets.tokens.size(), "scores",
                "kept tokens of each target, or none", std::to_string(targets.kept.size()));
  for (std::size_t i = 0; i < targets.kept.size(); ++i) {
    QRL_INVARIANT(targets.kept[i].size() <= kMostKept && std::ranges::binary_search(targets.kept[i], targets.tokens[i]),
                  "scores, target " + std::to_string(i),
                  "at most " + std::to_string(kMostKept) + " kept tokens, one of which is the target",
                  std::to_string(targets.kept[i].size()));
  }
  engine_.require_on_device(x, "scores, x");
  enter_device(engine_.device);
  engine_.drain();
  Stream(stream.handle).wait();
  with_memory({kUtilization, "the log-probs of given tokens", kLowerIt}, [&] {
    engine_.head.score({const_cast<float*>(x), {}}, targets, scores, engine_.stream);  // score does not modify x
  });
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
