#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/threads.h"
#include "decoder/cpu/teacher_forcing.h"
#include "quant/fp8.h"

namespace qrl::decoder {

namespace {

float percentile_of(std::vector<float>& values, double percentile) {
  // Few values exceed a percentile near 100, so partial_sort compares most values only once.
  const std::int64_t num_above = num_above_percentile(static_cast<std::int64_t>(values.size()), percentile);
  std::partial_sort(values.begin(), values.begin() + num_above + 1, values.end(), std::greater<>{});
  return values[static_cast<std::size_t>(num_above)];
}

std::int64_t beyond(const std::vector<float>& sizes, float scale) {
  return std::count_if(sizes.begin(), sizes.end(), [&](float size) { return size > scale * quant::kFp8Max; });
}

/// Returns one query scale per layer and kv head, computed from all query heads that share the kv head.
std::vector<float> query_scales(const ObservedQueries& queries, const ops::HeadShape& heads, std::int64_t version,
                                const KvCalibration& options) {
  const std::int64_t num_layers = queries.q_LNQ.shape()[0], num_rows = queries.q_LNQ.shape()[1];
  const std::int64_t group_width = heads.num_heads / heads.num_kv_heads * heads.head_dim;
  std::vector<float> scales(static_cast<std::size_t>(num_layers * heads.num_kv_heads));
  std::atomic<bool> all_finite = true;
  base::parallel_for(static_cast<std::int64_t>(scales.size()), 1, [&](base::Range range) {
    std::vector<float> sizes(static_cast<std::size_t>(num_rows * group_width));
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const std::int64_t layer = i / heads.num_kv_heads, head = i % heads.num_kv_heads;
      for (std::int64_t row = 0; row < num_rows; ++row) {
        const float* from =
            queries.q_LNQ.as<float>() + ((layer * num_rows + row) * heads.num_kv_heads + head) * group_width;
        std::transform(from, from + group_width, sizes.begin() + row * group_width,
                       [](float x) { return std::fabs(x); });
      }
      if (!std::ranges::all_of(sizes, [](float x) { return std::isfinite(x); })) all_finite = false;
      if (!all_finite) return;
      scales[static_cast<std::size_t>(i)] = kv_scale(percentile_of(sizes, options.percentile), options);
    }
  });
  if (!all_finite) model::fail_broken("KV calibration, queries", version);
  return scales;
}

}  // namespace

KvScales calibrate_kv(const model::Snapshot& snapshot, std::span<const std::vector<types::TokenId>> sequences,
                      const KvCalibration& options) {
  QRL_REQUIRE(!sequences.empty(), "KV calibration", "one prompt or more", "no prompts");
  const model::ModelConfig& config = snapshot.config();
  const ops::HeadShape heads{config.num_attention_heads, config.num_key_value_heads, config.head_dim};
  const auto num_scales = static_cast<std::size_t>(config.num_attention_layers() * heads.num_kv_heads);
  std::size_t num_tokens = 0;
  for (const std::vector<types::TokenId>& sequence : sequences) num_tokens += sequence.size();
  const ForcedKv forced = forced_kv(snapshot, sequences, options.queries);
  const auto scale_of = [&](std::vector<float>& sizes) {
    return kv_scale(percentile_of(sizes, options.percentile), options);
  };
  KvScales scales{snapshot.version(), std::vector<float>(num_scales), std::vector<float>(num_scales)};
  std::atomic<bool> all_finite = true;
  std::atomic<std::int64_t> num_saturated = 0;
  base::parallel_for(static_cast<std::int64_t>(num_scales), 1, [&](base::Range range) {
    const auto head_dim = static_cast<std::size_t>(heads.head_dim);
    std::vector<float> keys(num_tokens * head_dim), values(keys.size());
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      std::size_t at = 0;
      const ops::KvPages pages = forced.kv.layer(i / heads.num_kv_heads);
      for (std::size_t s = 0; s < sequences.size(); ++s) {
        const auto length = static_cast<std::int64_t>(sequences[s].size());
        for (std::int64_t t = 0; t < length; ++t, at += head_dim) {
          ops::read_slot(heads, pages, forced.pages[s][static_cast<std::size_t>(t / pages.page_size)],
                         t % pages.page_size, i % heads.num_kv_heads, keys.data() + at, values.data() + at);
        }
      }
      for (std::vector<float>* side : {&keys, &values}) {
        for (float& x : *side) x = std::fabs(x);
        if (!std::ranges::all_of(*side, [](float x) { return std::isfinite(x); })) all_finite = false;
      }
      if (!all_finite) return;
      scales.keys_LK[static_cast<std::size_t>(i)] = scale_of(keys);
      scales.values_LK[static_cast<std::size_t>(i)] = scale_of(values);
      num_saturated += beyond(keys, scales.keys_LK[static_cast<std::size_t>(i)]) +
                       beyond(values, scales.values_LK[static_cast<std::size_t>(i)]);
    }
  });
  if (!all_finite) model::fail_broken("KV calibration, keys and values", snapshot.version());
  if (forced.queries) scales.queries_LK = query_scales(*forced.queries, heads, snapshot.version(), options);
  const auto num_values = 2 * num_scales * num_tokens * static_cast<std::size_t>(heads.head_dim);
  scales.saturated_fraction = static_cast<double>(num_saturated) / static_cast<double>(num_values);
  return scales;
}

}  // namespace qrl::decoder
