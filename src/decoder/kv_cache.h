// Owns the memory of the KV pages of all layers. Knows nothing of who holds a page (page_pool.h does).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "decoder/kv_calibration.h"
#include "decoder/sequence.h"
#include "model/config.h"
#include "ops/paged_attention.h"

namespace qrl::decoder {

/// Keys and values of num_pages pages a layer, in the layout of ops/paged_attention.h.
class KvCache {
 public:
  /// Holds no memory until `allocate`.
  KvCache(const model::ModelConfig& config, std::int64_t num_pages, std::int64_t page_size, quant::KvFormat format);

  /// Makes the memory unless it is there; release gives it back.
  void allocate();
  void release() { layers_.clear(); }
  bool allocated() const { return !layers_.empty(); }

  std::int64_t num_pages() const { return num_pages_; }
  std::int64_t page_size() const { return page_size_; }
  quant::KvFormat format() const { return format_; }
  std::int64_t num_bytes() const;  ///< while allocated
  /// fp8_e4m3 needs scales by then.
  ops::KvPages layer(std::int64_t layer_idx) const;
  /// A layer's, fp32 [K] each: of e4m3 queries, and that of keys times it, which scores are multiplied by. Null where
  /// queries stay bf16.
  struct QueryScales {
    const float *of_queries = nullptr, *of_scores = nullptr;
  };
  QueryScales query_scales(std::int64_t layer_idx) const;

  /// Scales of fp8_e4m3 from now on; an internal error for other formats or another number of them.
  void set_scales(KvScales scales);
  const KvScales& scales() const { return scales_; }  ///< of version −1 without any

  /// Does the copies in all layers. SPMD, as ops/linear.h says; the targets must be distinct.
  void copy(base::Team& team, std::span<const PageCopy> copies) const;

 private:
  struct Layer {
    base::Buffer keys, values;  // u8 [num_pages, bytes of a page], of one arena
  };
  std::int64_t num_layers_, num_pages_, page_size_;
  ops::HeadShape heads_;
  quant::KvFormat format_;
  std::vector<Layer> layers_;
  KvScales scales_;
  std::vector<float> score_scales_LK_;  // with scales of queries
};

}  // namespace qrl::decoder
