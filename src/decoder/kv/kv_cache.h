#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "decoder/kv/delta_states.h"
#include "decoder/kv/kv_scales.h"
#include "decoder/kv/page_pool.h"
#include "model/config.h"
#include "ops/paged_attention.h"
#include "types/routes.h"

namespace qrl::decoder {

/// Holds the experts chosen at each position in each sparse layer. Pages have the KV pages' ids, so sequences that
/// share pages share routes. Empty for a dense model.
class RoutePages {
 public:
  RoutePages(const model::ModelConfig& config, std::int64_t num_pages, std::int64_t page_size);

  void allocate();
  void release() { experts_ = base::Buffer(); }
  std::int64_t num_bytes() const { return experts_.empty() ? 0 : static_cast<std::int64_t>(experts_.num_bytes()); }

  /// Stores the k experts of a position in a layer, which must be sparse. Threads may store different positions at
  /// once.
  void store(const PageId* page_table, std::int64_t position, std::int64_t layer_idx,
             const std::uint8_t* experts) const;
  void copy(const PageCopy& copy) const;
  /// Returns the routes of a sequence's first positions. Throws an internal error if its pages are too few.
  types::Routes read(std::span<const PageId> pages, std::int64_t num_tokens) const;

 private:
  std::uint8_t* slot(PageId page, std::int64_t slot_idx) const;

  std::int64_t num_pages_, page_size_, per_token_;
  std::vector<std::int64_t> sparse_idx_;  // by layer: index among sparse layers; −1: dense
  std::int64_t num_sparse_ = 0;
  base::Buffer experts_;  // u8 [num_pages, page_size, S, k]
};

/// Holds KV pages of layers with attention, laid out as in ops/paged_attention.h, the routes of a model with experts,
/// and the states of DeltaNet layers.
class KvCache {
 public:
  KvCache(const model::ModelConfig& config, std::int64_t num_pages, std::int64_t page_size, quant::KvFormat format,
          std::int64_t num_state_slots = 1);

  void allocate();
  void release() {
    layers_.clear();
    routes_.release();
    states_.release();
  }
  bool allocated() const { return !layers_.empty(); }

  const RoutePages& routes() const { return routes_; }
  const DeltaStates& states() const { return states_; }
  /// Returns the pages of a layer, by its index among layers with attention. Throws an internal error if fp8_e4m3 pages
  /// lack scales.
  ops::KvPages layer(std::int64_t attention_idx) const;
  /// Holds a layer's fp32 [K] scales of e4m3 queries, and the products of query and key scales. Null: queries stay
  /// bf16.
  struct QueryScales {
    const float *of_queries = nullptr, *of_scores = nullptr;
  };
  QueryScales query_scales(std::int64_t attention_idx) const;

  /// Throws an internal error for formats other than fp8_e4m3, or a wrong number of scales.
  void set_scales(KvScales scales);
  const KvScales& scales() const { return scales_; }  ///< `version` is −1 before any scales are set

  /// Copies pages in all layers, and the pages' routes. Targets must be distinct. SPMD (ops/linear.h).
  void copy(base::Team& team, std::span<const PageCopy> copies) const;

 private:
  struct Layer {
    base::Buffer keys, values;  // u8 [num_pages, page bytes], in one arena
  };
  std::int64_t num_layers_, num_pages_, page_size_;
  ops::HeadShape heads_;
  quant::KvFormat format_;
  std::vector<Layer> layers_;
  RoutePages routes_;
  DeltaStates states_;
  KvScales scales_;
  std::vector<float> score_scales_LK_;  // empty without query scales
};

}  // namespace qrl::decoder
