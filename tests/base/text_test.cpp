#include "base/text.h"

#include <string>
#include <vector>

#include "support/catch.h"

using namespace qrl;

TEST_CASE("spelling: suggests a name only when it is near") {
  const std::vector<std::string> names = {"n", "lr", "grpo", "eval", "decode", "recipe", "weight_decay"};
  CHECK(base::nearest_name("evel", names) == "eval");
  CHECK(base::nearest_name("eavl", names) == "eval");
  CHECK(base::nearest_name("lrr", names) == "lr");
  CHECK(base::nearest_name("decod", names) == "decode");
  CHECK(base::nearest_name("recipie", names) == "recipe");
  CHECK(base::nearest_name("wieght_deacy", names) == "weight_decay");
  for (const char* far : {"", "1", "x", "12", "dapo", "sudoku", "train"}) {
    INFO(far);
    CHECK(base::nearest_name(far, names).empty());
  }
}
