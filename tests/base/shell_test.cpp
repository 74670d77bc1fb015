#include "base/text.h"
#include "support/catch.h"

using qrl::base::shell_word;

TEST_CASE("shell words: quoted where the shell would read them differently") {
  CHECK(shell_word("runs/a-b_1.2,x=3") == "runs/a-b_1.2,x=3");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("my runs/$HOME") == "'my runs/$HOME'");
  CHECK(shell_word("it's") == "'it'\\''s'");
}
