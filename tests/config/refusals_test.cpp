// Tests that each recipe of refusals.yaml is refused with one error that has the row's texts.
#include "config/yaml/yaml_tree.h"
#include "support.h"
#include "support/files.h"

using namespace qrl;
using namespace qrl::test;

TEST_CASE("refused recipes: each row of refusals.yaml gives one error with its texts") {
  const config::YamlPtr table =
      config::parse_own_yaml(read_file(QRL_SOURCE_DIR "/tests/config/refusals.yaml"), "refusals.yaml");
  std::size_t num_rows = 0;
  for (const config::YamlMember& subject : table->members) {
    for (const config::YamlPtr& row : subject.value->items) {
      const std::string recipe = row->items.at(0)->text;
      INFO("refusals.yaml:" << row->line << ": " << recipe);
      const std::vector<std::string> lines = faults(recipe);
      CHECK(lines.size() == 1);
      for (std::size_t i = 1; i < row->items.size() && !lines.empty(); ++i) {
        INFO(lines.front());
        CHECK(holds(lines.front(), row->items[i]->text));
      }
      ++num_rows;
    }
  }
  CHECK(num_rows > 300);
}
