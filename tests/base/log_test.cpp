#include "base/log.h"

#include "support/catch.h"

using namespace qrl;

TEST_CASE("log: the hook set with set_before_log runs before each line") {
  int calls = 0;
  base::set_before_log([&] { ++calls; });
  base::log_info("one");
  base::log_warning("two");
  base::set_before_log({});
  base::log_info("three");
  CHECK(calls == 2);
}
