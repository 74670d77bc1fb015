#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "decoder/kv/page_pool.h"
#include "model/config.h"
#include "types/routes.h"

namespace qrl::decoder {

/// Holds the experts of each position's sparse layers, in pages with the KV pages' ids, so that sequences share routes
/// with their pages. Empty for a dense model.
class RoutePages {
 public:
  RoutePages(const model::ModelConfig& config, std::int64_t num_pages, std::int64_t page_size);

  void allocate();
  void release() { experts_ = base::Buffer(); }
  std::int64_t num_bytes() const { return experts_.empty() ? 0 : static_cast<std::int64_t>(experts_.num_bytes()); }

  /// Stores the k experts of a position's layer, which must be sparse. Threads may store different positions at once.
  void store(const PageId* page_table, std::int64_t position, std::int64_t layer_idx,
             const std::uint8_t* experts) const;
  void copy(const PageCopy& copy) const;
  /// Returns the routes of a sequence's first positions. Throws an internal error if its pages are too few.
  types::Routes read(std::span<const PageId> pages, std::int64_t num_tokens) const;

 private:
  std::uint8_t* slot(PageId page, std::int64_t slot_idx) const;

  std::int64_t num_pages_, page_size_, per_token_;
  std::vector<std::int64_t> sparse_idx_;  // of a layer; −1: dense
  std::int64_t num_sparse_ = 0;
  base::Buffer experts_;  // u8 [num_pages, page_size, S, k]
};

}  // namespace qrl::decoder
