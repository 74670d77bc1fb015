// Tests what the strict YAML reader accepts and refuses, independent of the keys.
#include <string>

#include "config/errors.h"
#include "config/yaml/yaml_tree.h"
#include "support.h"

using namespace qrl;
using namespace qrl::test;

TEST_CASE("YAML: refused forms are named with their line") {
  struct Case {
    std::string yaml, expected;
  };
  const std::string deep(65, '['), thousands(20000, '[');
  const Case cases[] = {
      {"", "r.yaml:1: expected a map"},
      {"# nothing\n", "r.yaml:1: expected a map"},
      {"---\n", "r.yaml:2: expected a map"},
      {"{}", "r.yaml:1: expected a map"},
      {"null", "r.yaml:1: expected a map"},
      {"- a\n", "r.yaml:1: expected a map of sections such as model, data, rollout, got a list"},
      {"42", "got \"42\""},
      {"optim: {lr: !!float 1}", "r.yaml:1: expected a value without a tag"},
      {"optim: {lr: ! 1}", "without a tag"},
      {"optim: {lr: &a !x 1}", "without a tag"},
      {"optim: !x {lr: 1}", "without a tag"},
      {"model: {path: !!python/object:os.system x}", "without a tag"},
      {"\n\noptim: !!null\n", "r.yaml:3: expected a value without a tag"},
      {"data: {train_files: !x []}", "without a tag"},
      {"a: &a {lr: 1}\noptim: {<<: *a}", "r.yaml:2: expected keys of this section, got the merge key <<"},
      {"trainer: {seed: 1}\n---\ntrainer: {seed: 2}\n", "r.yaml:2: expected one document"},
      {"trainer: {seed: 1}\n---\n", "one document"},
      {"{\"prompt\": \"1+1=\"}\n{\"prompt\": \"1+2=\"}\n",
       "r.yaml:2: expected one document, got JSON lines; name the file in data.train_files"},
      {"optim:\n\tlr: 1\n", "r.yaml:2: expected spaces for indentation, got a tab"},
      {"optim:\n  \tlr: 1\n", "r.yaml:2: expected spaces for indentation, got a tab"},
      {"optim:\n  lr: 1\n  lr: 2\n",
       "r.yaml:3: optim.lr: expected each key once in its section, got a repeated key (first on line 2)"},
      {"optim: {lr: 1}\nrollout: {n: 4}\noptim: {lr: 2}\n", "r.yaml:3: optim: expected each key once"},
      {"optim: {lr: 1, \"lr\": 2}", "each key once"},
      {"? [optim]\n: 1\n", "expected a name before the colon, got a list or map"},
      {"~: 1\n", "expected a name before the colon, got nothing (null)"},
      {"optim: {lr: 1", "r.yaml:1: expected well-formed YAML"},
      {"optim: 'x", "well-formed YAML"},
      {"optim: {lr: 1}}", "well-formed YAML"},
      {"trainer: {seed: 1}\n oops: 2\n", "well-formed YAML"},
      {"optim: *nope\n", "r.yaml:1: expected well-formed YAML"},
      {"a: &a [*a]", "expected an alias of a value that ends before it"},
      {"a: " + deep, "r.yaml:1: expected at most 64 levels of nesting"},
      {"a: " + thousands, "at most 64 levels"},
      {std::string(3000, '{'), "at most 64 levels"},
      {std::string(200, '-') + "\n", "r.yaml:1: expected"},
      {std::string("optim: {lr: 1}\n\0", 16), "r.yaml:2: expected UTF-8 text, got a NUL byte"},
      {std::string("o\0p\0:\0 \0", 8), "NUL byte"},
      {std::string("\xff\xfe"
                   "o\0",
                   4),
       "UTF-16"},
      {std::string("\xfe\xff\0o", 4), "UTF-16"},
      {"model: {path: \xc0\xaf}", "expected UTF-8 text"},
      {"model: {path: \xed\xa0\x80}", "expected UTF-8 text"},
      {"model: {path: \"\xff\"}", "expected UTF-8 text"},
      {"\nmodel: {path: a\x1b[31m}", R"(r.yaml:2: expected printable text, got a control character ("\x1b"))"},
      {"model: {path: a\rb}", "end lines with LF or CRLF"},
      {"a: " + std::string(1'000'000, 'x'), "expected at most 1 MB"},
      {R"(model: {path: "a\0b"})", "delete the NUL"},
  };
  for (const Case& one : cases) {
    INFO(one.yaml.substr(0, 80));
    const auto lines = faults(one.yaml);
    REQUIRE(!lines.empty());
    CHECK(holds(lines.front(), one.expected));
    INFO(lines.front());
  }
}

TEST_CASE("YAML: accepted forms give their values") {
  CHECK(read("\xef\xbb\xbftrainer: {seed: 7}\r\n").trainer.seed == 7);
  CHECK(read("%YAML 1.2\n---\ntrainer:\n  seed: 7\n...\n").trainer.seed == 7);
  CHECK(read("{\"trainer\": {\"seed\": 7}}").trainer.seed == 7);
  CHECK(read("trainer:\n  seed:\t7\n").trainer.seed == 7);
  CHECK(read("trainer: {seed: 7}\n\t\n\t# a comment\n").trainer.seed == 7);
  CHECK(read("model: &m {path: a}\noptim: &o {lr: 0.5}\nsft: {lr: 0.25}\n").optim.lr == 0.5);
  CHECK(read("data: {train_files: &f [a, b], val_files: *f}").data.val_files ==
        std::vector<std::string>{"/d/a", "/d/b"});
  CHECK(read("data:\n  prompt_template: |\n    Q: {prompt}\n    A:\n").data.prompt_template == "Q: {prompt}\nA:\n");
  CHECK(read("model: {path: \"m\xc3\xa9\"}").model.path == "/d/m\xc3\xa9");
  CHECK(read("optim:\nmodel: null\nrollout: {n: 4}").rollout.n == 4);
}

TEST_CASE("YAML aliases: limited in expanded values and depth") {
  std::string laughs = "a0: &a0 [x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before + "," + before + "]\n";
  }
  CHECK(holds(fault(laughs), "aliases for at most 10000 values"));

  std::string tower = "a0: &a0 [x]\n";
  for (int i = 1; i < 100; ++i) {
    tower += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  }
  CHECK(holds(fault(tower), "at most 64 levels"));
}

TEST_CASE("YAML: reads 64 levels") {
  config::Errors found;
  const std::string levels = std::string(64, '[') + std::string(64, ']');
  const auto tree = config::parse_yaml(levels, {"t"}, found);
  REQUIRE(tree != nullptr);
  CHECK(tree->height == 64);
  CHECK(found.empty());
}

TEST_CASE("YAML: a hostile number of faults makes a short message, quickly") {
  std::string many;
  for (int i = 0; i < 60000; ++i) many += "k" + std::to_string(i) + ": 1\n";
  const auto lines = faults(many);
  CHECK(lines.size() == 52);  // one line for all, 50 faults, and the count of further faults
  CHECK(lines.back() == "… and 59950 more");
}
