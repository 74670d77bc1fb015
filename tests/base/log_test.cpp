#include "base/log.h"

#include "support/catch.h"

using namespace qrl;

TEST_CASE("whoever keeps a line open is asked to end it before each line of the log") {
  int calls = 0;
  base::set_before_log([&] { ++calls; });
  base::log_info("one");
  base::log_warning("two");
  base::set_before_log({});
  base::log_info("three");
  CHECK(calls == 2);
}
