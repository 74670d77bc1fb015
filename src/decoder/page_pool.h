// Owns which KV pages are free and how many holders each page has. Knows nothing of the memory behind a page id, nor
// of who the holders are.
#pragma once

#include <cstdint>
#include <vector>

namespace qrl::decoder {

using PageId = std::int32_t;

/// Pages 0 … num_pages − 1 with reference counts. A page is free when nobody holds it.
class PagePool {
 public:
  explicit PagePool(std::int64_t num_pages);

  /// A free page, held once from now on. Throws an internal error when none is free: check num_free() before.
  PageId take();
  /// One holder more of a page that is held.
  void share(PageId page);
  /// One holder less; the page is free when it was the last.
  void give_back(PageId page);

  std::int64_t num_pages() const { return static_cast<std::int64_t>(num_holders_.size()); }
  std::int64_t num_free() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t num_used() const { return num_pages() - num_free(); }
  std::int32_t num_holders(PageId page) const { return num_holders_.at(static_cast<std::size_t>(page)); }

 private:
  std::vector<PageId> free_;  // a stack: the page given back last is the one most likely still in a cache
  std::vector<std::int32_t> num_holders_;
};

}  // namespace qrl::decoder
