#include "base/ascii.h"

#include <cctype>

#include "support/catch.h"

using namespace qrl::base;

TEST_CASE("ascii: classes equal those of the C locale, and hold no byte above 127") {
  for (int i = 0; i < 256; ++i) {
    CAPTURE(i);
    const auto c = static_cast<char>(i);
    CHECK(is_digit(c) == (i < 128 && std::isdigit(i) != 0));
    CHECK(is_letter(c) == (i < 128 && std::isalpha(i) != 0));
    CHECK(is_space(c) == (i < 128 && std::isspace(i) != 0));
    CHECK(lower(c) == (i < 128 ? static_cast<char>(std::tolower(i)) : c));
  }
}

TEST_CASE("ascii: strips white space at both ends, and finds a leading word in any case") {
  CHECK(trimmed(" \t\n a b \r\n") == "a b");
  CHECK(trimmed(" \n").empty());
  CHECK(begins_with("Not 42", "not "));
  CHECK(begins_with("not", "not"));
  CHECK_FALSE(begins_with("no", "not"));
  CHECK_FALSE(begins_with("[ot", "{ot"));
}
