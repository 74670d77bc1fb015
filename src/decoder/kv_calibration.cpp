#include "decoder/kv_calibration.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "decoder/forced.h"
#include "quant/fp8.h"

namespace qrl::decoder {

namespace {

/// The value below which `percentile` percent of `values` lie, at least one of them (nearest rank). Reorders them.
float percentile_of(std::vector<float>& values, double percentile) {
  const auto count = static_cast<double>(values.size());
  const auto rank =
      std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(percentile / 100 * count)), 1, values.size());
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

KvScales calibrate_kv(const model::Snapshot& snapshot, std::span<const std::vector<types::TokenId>> sequences,
                      const KvCalibration& options) {
  QRL_REQUIRE(!sequences.empty(), "KV calibration", "one prompt or more", "none");
  const model::ModelConfig& config = snapshot.config();
  const ops::HeadShape heads{config.num_attention_heads, config.num_key_value_heads, config.head_dim};
  const auto num_scales = static_cast<std::size_t>(config.num_hidden_layers * heads.num_kv_heads);
  std::vector<std::vector<float>> keys(num_scales), values(num_scales);
  std::vector<float> key(static_cast<std::size_t>(heads.head_dim)), value(key.size());
  for (const std::vector<types::TokenId>& sequence : sequences) {
    const KvCache kv = forced_kv(snapshot, sequence);
    for (std::size_t i = 0; i < num_scales; ++i) {
      const auto layer_idx = static_cast<std::int64_t>(i) / heads.num_kv_heads;
      for (std::size_t t = 0; t < sequence.size(); ++t) {
        const auto position = static_cast<std::int64_t>(t);
        ops::read_slot(heads, kv.layer(layer_idx), static_cast<std::int32_t>(position / kv.page_size()),
                       position % kv.page_size(), static_cast<std::int64_t>(i) % heads.num_kv_heads, key.data(),
                       value.data());
        for (const float x : key) keys[i].push_back(std::fabs(x));
        for (const float x : value) values[i].push_back(std::fabs(x));
      }
    }
  }
  const auto scale_of = [&](std::vector<float>& sizes) {
    if (!std::all_of(sizes.begin(), sizes.end(), [](float x) { return std::isfinite(x); })) {
      model::fail_broken("KV calibration, keys and values", snapshot.version());
    }
    const double scale = percentile_of(sizes, options.percentile) * options.margin / quant::kFp8Max;
    return scale > 0 ? static_cast<float>(scale) : 1.0F;
  };
  KvScales scales{snapshot.version(), {}, {}};
  for (std::vector<float>& sizes : keys) scales.keys_LK.push_back(scale_of(sizes));
  for (std::vector<float>& sizes : values) scales.values_LK.push_back(scale_of(sizes));
  return scales;
}

}  // namespace qrl::decoder
