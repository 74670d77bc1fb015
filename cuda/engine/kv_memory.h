#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cuda/attention/kv.h"
#include "cuda/engine/decode_engine.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Holds keys and values of some layers, initialized to zero. Attention multiplies the padding of heads by 0, so the
/// padding must not be NaN. Percentiles need zeros in unused slots.
struct PageMemory {
  PageMemory() = default;
  PageMemory(quant::KvFormat format, const KvLayout& at, std::int64_t num_pages, std::int64_t num_layers);
  static std::size_t page_bytes(quant::KvFormat format, const KvLayout& at);
  /// Returns the maximum number of bytes that the device adds when it rounds up the arrays' sizes.
  static std::size_t rounding_bytes(quant::KvFormat format);
  bool empty() const { return keys.empty(); }
  std::int64_t layer_slots = 0;
  Memory keys, values, key_slot_scales, value_slot_scales;
};

class KvMemory {
 public:
  KvMemory(const EngineOptions& options, const DeviceFacts& device);

  /// Implement DecodeEngine::set_kv_scales and allocate_kv.
  void set_scales(std::span<const float> keys_LK, std::span<const float> values_LK, const Stream& stream);
  std::int64_t allocate();
  void release() { layers_ = PageMemory(); }

  /// has_scales: whether fp8_e4m3's scales are set; true for other formats.
  bool has_pages() const { return !layers_.empty(); }
  bool has_scales() const { return options_.kv_format != quant::KvFormat::fp8_e4m3 || !head_scales_.empty(); }
  std::int64_t num_pages() const { return num_pages_; }

  KvPages pages(std::size_t layer_idx) const { return view(layers_, layer_idx, layer_idx); }
  /// Returns a layer's view of pages [0, num_pages) in separate memory, which all layers share and which grows on
  /// demand.
  KvPages shared_pages(std::int64_t num_pages, std::size_t layer_idx);

  KvLayout layout(quant::KvFormat format) const {
    return kv_layout(format, options_.model.num_key_value_heads, options_.page_size, options_.model.head_dim);
  }

 private:
  KvPages view(const PageMemory& memory, std::size_t index_in_memory, std::size_t layer_idx) const;
  std::int64_t affordable_pages(std::size_t page_bytes) const;

  EngineOptions options_;
  std::size_t total_bytes_, kept_back_bytes_;
  std::string device_name_;
  PageMemory layers_;
  std::int64_t num_pages_ = 0;
  PageMemory shared_;
  std::int64_t num_shared_pages_ = 0;
  Memory head_scales_;  // keys [L, K], then values [L, K]
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
