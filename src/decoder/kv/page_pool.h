#pragma once

#include <cstdint>
#include <vector>

namespace qrl::decoder {

using PageId = std::int32_t;

/// Describes a copy of the first num_slots slots of a page, in every layer.
struct PageCopy {
  PageId from = 0;
  PageId to = 0;
  std::int64_t num_slots = 0;
};

/// Counts references to pages 0 … num_pages − 1; a page without references is free.
class PagePool {
 public:
  explicit PagePool(std::int64_t num_pages);

  /// Allocates a free page, with reference count 1. Throws an internal error if none is free.
  PageId allocate();
  /// Throws an internal error for a free page.
  void add_ref(PageId page);
  /// Drops a reference; the page is free after the last. Throws an internal error for a free page.
  void free(PageId page);

  std::int64_t num_pages() const { return static_cast<std::int64_t>(num_refs_.size()); }
  std::int64_t num_free() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t num_used() const { return num_pages() - num_free(); }
  std::int32_t num_refs(PageId page) const { return num_refs_.at(static_cast<std::size_t>(page)); }

 private:
  std::vector<PageId> free_;  // a stack: the page freed last is likeliest in a CPU cache
  std::vector<std::int32_t> num_refs_;
};

}  // namespace qrl::decoder
