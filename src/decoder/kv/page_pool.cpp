#include "decoder/kv/page_pool.h"

#include <numeric>
#include <string>

#include "base/error.h"

namespace qrl::decoder {

PagePool::PagePool(std::int64_t num_pages)
    : free_(static_cast<std::size_t>(num_pages)), num_refs_(static_cast<std::size_t>(num_pages), 0) {
  std::iota(free_.rbegin(), free_.rend(), PageId{0});
}

PageId PagePool::allocate() {
  QRL_INVARIANT(!free_.empty(), "page pool", "a free page", "all " + std::to_string(num_pages()) + " are held");
  const PageId page = free_.back();
  free_.pop_back();
  num_refs_[static_cast<std::size_t>(page)] = 1;
  return page;
}

void PagePool::add_ref(PageId page) {
  QRL_INVARIANT(num_refs(page) > 0, "page pool", "a held page", "free page " + std::to_string(page));
  ++num_refs_[static_cast<std::size_t>(page)];
}

void PagePool::free(PageId page) {
  QRL_INVARIANT(num_refs(page) > 0, "page pool", "a held page", "free page " + std::to_string(page));
  if (--num_refs_[static_cast<std::size_t>(page)] == 0) free_.push_back(page);
}

}  // namespace qrl::decoder
