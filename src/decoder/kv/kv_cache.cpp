#include "decoder/kv/kv_cache.h"

#include <string>
#include <utility>

#include "base/error.h"

namespace qrl::decoder {

using quant::KvFormat;

KvCache::KvCache(const model::ModelConfig& config, std::int64_t num_pages, std::int64_t page_size, KvFormat format)
    : num_layers_(config.num_hidden_layers),
      num_pages_(num_pages),
      page_size_(page_size),
      heads_{config.num_attention_heads, config.num_key_value_heads, config.head_dim},
      format_(format),
      routes_(config, num_pages, page_size) {}

void KvCache::allocate() {
  if (allocated()) return;
  const std::int64_t page_bytes = ops::kv_page_bytes(heads_, format_, page_size_);
  std::vector<Layer> layers(static_cast<std::size_t>(num_layers_));
  base::Arena arena;
  for (Layer& layer : layers) {
    for (base::Buffer* side : {&layer.keys, &layer.values})
      *side = base::Buffer(base::DType::u8, {num_pages_, page_bytes}, &arena);
  }
  routes_.allocate();
  layers_ = std::move(layers);  // assigned at the end, because an allocation may fail midway
}

std::int64_t KvCache::num_bytes() const {
  std::size_t total = 0;
  for (const Layer& layer : layers_) total += layer.keys.num_bytes() + layer.values.num_bytes();
  return static_cast<std::int64_t>(total);
}

void KvCache::set_scales(KvScales scales) {
  const auto wanted = static_cast<std::size_t>(num_layers_ * heads_.num_kv_heads);
  QRL_INVARIANT(format_ == KvFormat::fp8_e4m3 && scales.keys_LK.size() == wanted && scales.values_LK.size() == wanted,
                "KV scales", std::to_string(wanted) + " for fp8_e4m3 pages",
                std::to_string(scales.keys_LK.size()) + " for " + std::string(name(format_)));
  QRL_INVARIANT(scales.queries_LK.empty() || scales.queries_LK.size() == wanted, "KV scales",
                std::to_string(wanted) + " of queries, or none", std::to_string(scales.queries_LK.size()));
  scales_ = std::move(scales);
  score_scales_LK_ = scales_.queries_LK;
  for (std::size_t i = 0; i < score_scales_LK_.size(); ++i) score_scales_LK_[i] *= scales_.keys_LK[i];
}

KvCache::QueryScales KvCache::query_scales(std::int64_t layer_idx) const {
  if (score_scales_LK_.empty()) return {};
  const auto first = static_cast<std::size_t>(layer_idx * heads_.num_kv_heads);
  return {scales_.queries_LK.data() + first, score_scales_LK_.data() + first};
}

ops::KvPages KvCache::layer(std::int64_t layer_idx) const {
  const Layer& layer = layers_[static_cast<std::size_t>(layer_idx)];
  ops::KvPages pages{format_,
                     num_pages_,
                     page_size_,
                     static_cast<std::byte*>(layer.keys.view().data),
                     static_cast<std::byte*>(layer.values.view().data),
                     nullptr,
                     nullptr};
  if (format_ == KvFormat::fp8_e4m3) {
    QRL_INVARIANT(!scales_.keys_LK.empty(), "KV cache", "calibrated scales", "none");
    const auto first = static_cast<std::size_t>(layer_idx * heads_.num_kv_heads);
    pages.key_scales = scales_.keys_LK.data() + first;
    pages.value_scales = scales_.values_LK.data() + first;
  }
  return pages;
}

void KvCache::copy(base::Team& team, std::span<const PageCopy> copies) const {
  const auto count = static_cast<std::int64_t>(copies.size());
  const base::Range share = team.slice(num_layers_ * count);
  for (std::int64_t i = share.begin; i < share.end; ++i) {
    const PageCopy& one = copies[static_cast<std::size_t>(i % count)];
    ops::copy_slots(heads_, layer(i / count), one.from, one.to, one.num_slots);
    if (i < count) routes_.copy(one);
  }
}

}  // namespace qrl::decoder
