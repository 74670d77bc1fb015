#include "base/text.h"
#include "support/catch.h"

using qrl::base::readable;

TEST_CASE("readable text: shown unchanged where printable, and escapes are unambiguous") {
  CHECK(readable("小明 Jürgen 🙂") == "\"小明 Jürgen 🙂\"");
  CHECK(readable("$\\nu$ \"x\"\n\ty") == R"("$\\nu$ \"x\"\n\ty")");
  CHECK(readable(std::string("a\0\x1b\x7f", 4)) == R"("a\x00\x1b\x7f")");
  CHECK(readable("a\xff\xe5\xb0") == R"("a\xff\xe5\xb0")");  // not UTF-8
  CHECK(readable("\u202ea\u200b\u0085\ufeff") == R"("\u202ea\u200b\u0085\ufeff")");
  CHECK(readable("｜é") == "\"｜é\"");
}

TEST_CASE("readable text: a long text is cut between characters") {
  CHECK(readable("abcdef", 3) == "\"abc…\"");
  CHECK(readable("aé", 3) == "\"aé\"");
  CHECK(readable("aéb", 3) == "\"aé…\"");
  CHECK(readable("aéb", 2) == "\"a…\"");
  CHECK(readable("", 0) == "\"\"");
}

TEST_CASE("readable text: terminal text keeps letters and lines, and loses control sequences") {
  using qrl::base::printable;
  CHECK(printable("a \"b\"\\ é 小\n\tc") == "a \"b\"\\ é 小\n\tc");
  CHECK(printable("\x1b[2J\x1b]0;x\a\r\b\x7f") == "\\x1b[2J\\x1b]0;x\\x07\\x0d\\x08\\x7f");
  CHECK(printable("\u202eabc\u2066\u009b1m") == "\\u202eabc\\u2066\\u009b1m");
  CHECK(printable("\xff\xe5\xb0") == "\\xff\\xe5\\xb0");
}
