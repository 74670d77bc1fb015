#include "decoder/kv_calibration.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/threads.h"
#include "decoder/forced.h"
#include "quant/fp8.h"

namespace qrl::decoder {

namespace {

/// The value below which `percentile` percent of `values` lie, at least one of them (nearest rank). Reorders them.
float percentile_of(std::vector<float>& values, double percentile) {
  const auto count = static_cast<double>(values.size());
  const auto rank =
      std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(percentile / 100 * count)), 1, values.size());
  // Few values are above a percentile near 100: most are passed by after one comparison with the least of those.
  const std::size_t num_largest = values.size() - rank + 1;
  std::partial_sort(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(num_largest), values.end(),
                    std::greater<>{});
  return values[num_largest - 1];
}

}  // namespace

KvScales calibrate_kv(const model::Snapshot& snapshot, std::span<const std::vector<types::TokenId>> sequences,
                      const KvCalibration& options) {
  QRL_REQUIRE(!sequences.empty(), "KV calibration", "one prompt or more", "none");
  const model::ModelConfig& config = snapshot.config();
  const ops::HeadShape heads{config.num_attention_heads, config.num_key_value_heads, config.head_dim};
  const auto num_scales = static_cast<std::size_t>(config.num_hidden_layers * heads.num_kv_heads);
  std::size_t num_tokens = 0;
  for (const std::vector<types::TokenId>& sequence : sequences) num_tokens += sequence.size();
  const ForcedKv forced = forced_kv(snapshot, sequences);
  const auto scale_of = [&](std::vector<float>& sizes) {
    const auto scale = static_cast<float>(percentile_of(sizes, options.percentile) * options.margin / quant::kFp8Max);
    return scale > 0 ? scale : 1.0F;
  };
  KvScales scales{snapshot.version(), std::vector<float>(num_scales), std::vector<float>(num_scales)};
  std::atomic<bool> all_finite = true;
  // One head at a time, so that its values alone are held besides the cache.
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
    }
  });
  if (!all_finite) model::fail_broken("KV calibration, keys and values", snapshot.version());
  return scales;
}

}  // namespace qrl::decoder
