// Owns the memory of keys and values: every layer's pages, and pages that layers take in turn. Knows nothing of what is
// stored in them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cuda/engine/decode_engine.h"
#include "cuda/runtime/kernels.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Keys and values of some layers, zero where nothing was stored yet: attention may weigh
/// what lies beyond a sequence's end by 0, which NaN survives, and percentiles take empty slots for the smallest. An
/// allocation an array, whatever the number of layers: the device rounds each up.
struct PageMemory {
  PageMemory() = default;
  PageMemory(quant::KvFormat format, const KvLayout& at, std::int64_t num_pages, std::int64_t num_layers);
  /// Of one layer.
  static std::size_t page_bytes(quant::KvFormat format, const KvLayout& at);
  /// What the device may round all of its arrays up by.
  static std::size_t rounding_bytes(quant::KvFormat format);
  bool empty() const { return keys.empty(); }
  std::int64_t layer_slots = 0;
  Memory keys, values, key_slot_scales, value_slot_scales;
};

class KvMemory {
 public:
  KvMemory(const EngineOptions& options, const DeviceFacts& device);

  /// As Engine's.
  void set_scales(std::span<const float> keys_LK, std::span<const float> values_LK, const Stream& stream);
  std::int64_t allocate();
  void release() { layers_ = PageMemory(); }

  /// Whether there are pages and, of a format that has them, scales.
  bool has_pages() const { return !layers_.empty(); }
  bool has_scales() const { return options_.kv_format != quant::KvFormat::fp8_e4m3 || !head_scales_.empty(); }
  std::int64_t num_pages() const { return num_pages_; }

  KvPages pages(std::size_t layer_idx) const { return view(layers_, layer_idx, layer_idx); }
  /// Pages [0, num_pages) of memory beside that, the same for every layer, kept until more are wanted.
  KvPages shared_pages(std::int64_t num_pages, std::size_t layer_idx);

  KvLayout layout(quant::KvFormat format) const {
    return kv_layout(format, options_.model.num_key_value_heads, options_.page_size, options_.model.head_dim);
  }

 private:
  /// The index_in_memory-th layer of `memory`, which is layer layer_idx of the model.
  KvPages view(const PageMemory& memory, std::size_t index_in_memory, std::size_t layer_idx) const;
  std::int64_t affordable_pages(std::size_t page_bytes) const;

  EngineOptions options_;
  std::size_t total_bytes_, kept_back_bytes_;
  std::string device_name_;
  PageMemory layers_;
  std::int64_t num_pages_ = 0;
  PageMemory shared_;  // of one layer
  std::int64_t num_shared_pages_ = 0;
  Memory head_scales_;  // keys [L, K], then values
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
