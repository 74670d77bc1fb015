#include "base/text.h"
#include "support/catch.h"

using qrl::base::shell_word;

TEST_CASE("a word of a shell's command is quoted where the shell would read it otherwise") {
  CHECK(shell_word("runs/a-b_1.2,x=3") == "runs/a-b_1.2,x=3");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("my runs/$HOME") == "'my runs/$HOME'");
  CHECK(shell_word("it's") == "'it'\\''s'");
}
