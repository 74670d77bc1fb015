// Owns the memory of the KV pages of all layers. Knows nothing of who holds a page (page_pool.h does).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "decoder/sequence.h"
#include "model/config.h"
#include "ops/transformer.h"

namespace qrl::decoder {

/// Keys and values [num_pages, page_size, K, E] a layer, f32 or bf16.
class KvCache {
 public:
  /// Holds no memory until `allocate`. Throws an input error for another dtype.
  KvCache(const model::ModelConfig& config, std::int64_t num_pages, std::int64_t page_size, base::DType dtype);

  /// Makes the memory unless it is there; release gives it back.
  void allocate();
  void release() { layers_.clear(); }
  bool allocated() const { return !layers_.empty(); }

  std::int64_t num_pages() const { return shape_[0]; }
  std::int64_t page_size() const { return shape_[1]; }
  ops::KvPages layer(std::int64_t layer_idx) const;

  /// Does the copies in all layers. SPMD, as ops/linear.h says; the targets must be distinct.
  void copy(base::Team& team, std::span<const PageCopy> copies) const;

 private:
  struct Layer {
    base::Buffer keys, values;
  };
  std::int64_t num_layers_;
  base::Shape shape_;
  base::DType dtype_;
  std::vector<Layer> layers_;
};

}  // namespace qrl::decoder
