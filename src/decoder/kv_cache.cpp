#include "decoder/kv_cache.h"

#include <cstring>

#include "base/error.h"

namespace qrl::decoder {

KvCache::KvCache(const model::ModelConfig& config, std::int64_t num_pages, std::int64_t page_size, base::DType dtype)
    : num_layers_(config.num_hidden_layers),
      shape_{num_pages, page_size, config.num_key_value_heads, config.head_dim},
      dtype_(dtype) {
  QRL_REQUIRE(dtype == base::DType::f32 || dtype == base::DType::bf16, "KV cache", "dtype F32 or BF16",
              std::string(base::name(dtype)));
}

void KvCache::allocate() {
  if (allocated()) return;
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < num_layers_; ++i) {
    layers.push_back({base::Buffer(dtype_, shape_), base::Buffer(dtype_, shape_)});
  }
  layers_ = std::move(layers);  // all or nothing: memory may run out half way
}

ops::KvPages KvCache::layer(std::int64_t layer_idx) const {
  const Layer& layer = layers_[static_cast<std::size_t>(layer_idx)];
  return {layer.keys.view(), layer.values.view(), page_size()};
}

void KvCache::copy(base::Team& team, std::span<const PageCopy> copies) const {
  const std::size_t slot_bytes = static_cast<std::size_t>(shape_[2] * shape_[3]) * base::size_bytes(dtype_);
  const std::size_t page_bytes = static_cast<std::size_t>(page_size()) * slot_bytes;
  const auto count = static_cast<std::int64_t>(copies.size());
  const base::Range share = team.slice(num_layers_ * count);
  for (std::int64_t i = share.begin; i < share.end; ++i) {
    const PageCopy& copy = copies[static_cast<std::size_t>(i % count)];
    const Layer& layer = layers_[static_cast<std::size_t>(i / count)];
    for (const base::Buffer* pages : {&layer.keys, &layer.values}) {
      auto* bytes = static_cast<std::byte*>(pages->view().data);
      std::memcpy(bytes + static_cast<std::size_t>(copy.to) * page_bytes,
                  bytes + static_cast<std::size_t>(copy.from) * page_bytes,
                  static_cast<std::size_t>(copy.num_slots) * slot_bytes);
    }
  }
}

}  // namespace qrl::decoder
