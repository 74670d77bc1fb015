#include <sys/wait.h>

#include <cstdlib>
#include <fstream>

#include "support/catch.h"

namespace {

/// Exit code of scripts/check_docs on a document with this text.
int check(const std::string& text, const std::string& environment = "env -u QRL_LONG_TESTS") {
  const qrl::test::TempDir dir;
  std::ofstream(dir / "doc.md") << text;
  const std::string program = (std::filesystem::path(QRL_SOURCE_DIR) / "scripts" / "check_docs").string();
  const std::string command = environment + " python3 '" + program + "' --bin '" + dir.path().string() + "' '" +
                              (dir / "doc.md").string() + "' >'" + (dir / "out").string() + "' 2>&1";
  return WEXITSTATUS(std::system(command.c_str()));
}

std::string block(const std::string& commands, const std::string& mark = "<!-- run -->") {
  return "Text.\n\n" + mark + "\n```sh\n" + commands + "\n```\n";
}

}  // namespace

TEST_CASE("check_docs runs marked blocks and no others") {
  CHECK(check(block("true")) == 0);
  CHECK(check(block("false; true")) == 1);
  CHECK(check(block("false | true")) == 1);
  CHECK(check(block("echo $undefined")) == 1);
  CHECK(check("```sh\nfalse\n```\n") == 4);
  CHECK(check("```sh\nfalse\n```\n" + block("true")) == 0);
}

TEST_CASE("check_docs: the blocks of a document share a folder with the recipes") {
  CHECK(check(block("echo 7 >made") + block("test \"$(cat made)\" = 7 && test -d recipes")) == 0);
  CHECK(check(block("test -e made")) == 1);
}

TEST_CASE("check_docs: long blocks run on demand, marks need a block, links a target") {
  CHECK(check(block("false", "<!-- run long -->")) == 4);
  CHECK(check(block("false", "<!-- run long -->"), "QRL_LONG_TESTS=1") == 1);
  CHECK(check("<!-- run -->\ntext\n") == 1);
  CHECK(check("[here](nowhere.md)\n" + block("true")) == 1);
  CHECK(check("[here](doc.md#part) [there](https://example.org/x)\n" + block("true")) == 0);
}
