#include "decoder/kv/page_pool.h"

#include <set>

#include "base/error.h"
#include "support/catch.h"

using qrl::decoder::PageId;
using qrl::decoder::PagePool;

TEST_CASE("page pool: a page is free again once its last holder returns it") {
  PagePool pool(3);
  const PageId page = pool.allocate();
  pool.add_ref(page);
  CHECK(pool.num_refs(page) == 2);
  pool.free(page);
  CHECK(pool.num_free() == 2);
  pool.free(page);
  CHECK(pool.num_free() == 3);
}

TEST_CASE("page pool: all pages can be taken, each once") {
  PagePool pool(5);
  std::set<PageId> pages;
  while (pool.num_free() > 0) pages.insert(pool.allocate());
  CHECK(pages == std::set<PageId>{0, 1, 2, 3, 4});
}

TEST_CASE("page pool: misuse is an internal error") {
  PagePool pool(1);
  CHECK_THROWS_AS(pool.add_ref(0), qrl::base::Error);
  CHECK_THROWS_AS(pool.free(0), qrl::base::Error);
  const PageId page = pool.allocate();
  CHECK_THROWS_AS(pool.allocate(), qrl::base::Error);
  pool.free(page);
  CHECK_THROWS_AS(pool.free(page), qrl::base::Error);
}
