#include "decoder/kv/page_pool.h"

#include <set>

#include "base/error.h"
#include "support/catch.h"

using qrl::decoder::PageId;
using qrl::decoder::PagePool;

TEST_CASE("a page is free again when its last holder gives it back") {
  PagePool pool(3);
  const PageId page = pool.take();
  pool.share(page);
  CHECK(pool.num_holders(page) == 2);
  pool.give_back(page);
  CHECK(pool.num_free() == 2);
  pool.give_back(page);
  CHECK(pool.num_free() == 3);
}

TEST_CASE("all pages can be taken, each once") {
  PagePool pool(5);
  std::set<PageId> pages;
  while (pool.num_free() > 0) pages.insert(pool.take());
  CHECK(pages == std::set<PageId>{0, 1, 2, 3, 4});
}

TEST_CASE("breaking the pool's rules is an internal error") {
  PagePool pool(1);
  CHECK_THROWS_AS(pool.share(0), qrl::base::Error);
  CHECK_THROWS_AS(pool.give_back(0), qrl::base::Error);
  const PageId page = pool.take();
  CHECK_THROWS_AS(pool.take(), qrl::base::Error);
  pool.give_back(page);
  CHECK_THROWS_AS(pool.give_back(page), qrl::base::Error);
}
