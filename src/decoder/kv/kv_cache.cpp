#include "decoder/kv/kv_cache.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace qrl::decoder {

RoutePages::RoutePages(const model::ModelConfig& config, std::int64_t num_pages, std::int64_t page_size)
    : num_pages_(num_pages), page_size_(page_size), per_token_(config.num_experts_per_tok) {
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    sparse_idx_.push_back(config.is_sparse(layer) ? num_sparse_++ : -1);
}

void RoutePages::allocate() {
  if (num_sparse_ > 0 && experts_.empty())
    experts_ = base::Buffer(base::DType::u8, {num_pages_, page_size_, num_sparse_, per_token_});
}

std::uint8_t* RoutePages::slot(PageId page, std::int64_t slot_idx) const {
  return experts_.as<std::uint8_t>() + (page * page_size_ + slot_idx) * num_sparse_ * per_token_;
}

void RoutePages::store(const PageId* page_table, std::int64_t position, std::int64_t layer_idx,
                       const std::uint8_t* experts) const {
  std::copy_n(experts, per_token_,
              slot(page_table[position / page_size_], position % page_size_) +
                  sparse_idx_[static_cast<std::size_t>(layer_idx)] * per_token_);
}

void RoutePages::copy(const PageCopy& copy) const {
  if (!experts_.empty()) std::copy_n(slot(copy.from, 0), copy.num_slots * num_sparse_ * per_token_, slot(copy.to, 0));
}

types::Routes RoutePages::read(std::span<const PageId> pages, std::int64_t num_tokens) const {
  if (experts_.empty()) return {};
  QRL_INVARIANT(num_tokens <= std::ssize(pages) * page_size_, "routes",
                "pages of " + std::to_string(num_tokens) + " tokens", std::to_string(pages.size()) + " pages");
  types::Routes routes{static_cast<std::int32_t>(num_sparse_), static_cast<std::int32_t>(per_token_), {}};
  routes.experts.reserve(static_cast<std::size_t>(num_tokens) * routes.token_bytes());
  for (std::int64_t first = 0; first < num_tokens; first += page_size_) {
    const std::uint8_t* from = slot(pages[static_cast<std::size_t>(first / page_size_)], 0);
    const std::int64_t count = std::min(page_size_, num_tokens - first);
    routes.experts.insert(routes.experts.end(), from, from + count * num_sparse_ * per_token_);
  }
  return routes;
}

using quant::KvFormat;

KvCache::KvCache(const model::ModelConfig& config, std::int64_t num_pages, std::int64_t page_size, KvFormat format,
                 std::int64_t num_state_slots)
    : num_layers_(config.num_attention_layers()),
      num_pages_(num_pages),
      page_size_(page_size),
      heads_{config.num_attention_heads, config.num_key_value_heads, config.head_dim},
      format_(format),
      routes_(config, num_pages, page_size),
      states_(config, num_state_slots) {}

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
  states_.allocate();
  layers_ = std::move(layers);  // assigned at the end, because an allocation may fail midway
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

KvCache::QueryScales KvCache::query_scales(std::int64_t attention_idx) const {
  if (score_scales_LK_.empty()) return {};
  const auto first = static_cast<std::size_t>(attention_idx * heads_.num_kv_heads);
  return {scales_.queries_LK.data() + first, score_scales_LK_.data() + first};
}

ops::KvPages KvCache::layer(std::int64_t attention_idx) const {
  const Layer& layer = layers_[static_cast<std::size_t>(attention_idx)];
  ops::KvPages pages{format_,
                     num_pages_,
                     page_size_,
                     static_cast<std::byte*>(layer.keys.view().data),
                     static_cast<std::byte*>(layer.values.view().data),
                     nullptr,
                     nullptr};
  if (format_ == KvFormat::fp8_e4m3) {
    QRL_INVARIANT(!scales_.keys_LK.empty(), "KV cache", "calibrated scales", "no scales");
    const auto first = static_cast<std::size_t>(attention_idx * heads_.num_kv_heads);
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
