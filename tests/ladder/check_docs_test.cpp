#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "support/catch.h"
#include "support/files.h"

namespace {

struct Checked {
  int exit_code;
  std::string output;
};

/// Runs scripts/accept/check_docs on a repository of these files. `files` maps a path in it to its text.
Checked check_files(const std::map<std::string, std::string>& files, const std::string& arguments,
                    const std::string& environment = "env -u QRL_LONG_TESTS") {
  const qrl::test::TempDir dir;
  for (const auto& [name, text] : files) {
    std::filesystem::create_directories((dir / "root" / name).parent_path());
    std::ofstream(dir / "root" / name) << text;
  }
  std::filesystem::create_directories(dir / "root/recipes");
  const std::string command = environment + " python3 '" QRL_SOURCE_DIR "/scripts/accept/check_docs' --root '" +
                              (dir / "root").string() + "' " + arguments + " >'" + (dir / "out").string() + "' 2>&1";
  const int exit_code = WEXITSTATUS(std::system(command.c_str()));
  return {exit_code, qrl::test::read_file(dir / "out")};
}

/// Returns the exit code for a README.md with this text, whose blocks run.
int run_page(const std::string& text, const std::string& environment = "env -u QRL_LONG_TESTS") {
  return check_files({{"README.md", text}}, "--bin .", environment).exit_code;
}

/// Returns the faults of one page, without running its blocks.
std::string faults(const std::string& text, const std::string& name = "README.md") {
  return check_files({{name, text}, {"docs/gpu.md", "# On a GPU\n"}, {"src/a.h", "one\ntwo\n"}}, "").output;
}

std::string block(const std::string& commands, const std::string& mark = "<!-- run -->") {
  return "Text.\n\n" + mark + "\n```sh\n" + commands + "\n```\n";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
bool is_sound(const std::string& output) { return contains(output, " 0 failures"); }

}  // namespace

TEST_CASE("check_docs: runs the blocks marked run and no others") {
  CHECK(run_page(block("true")) == 0);
  CHECK(run_page(block("false; true")) == 1);
  CHECK(run_page(block("false | true")) == 1);
  CHECK(run_page(block("echo $undefined")) == 1);
  CHECK(run_page(block("false", "<!-- not run: it fails -->")) == 4);
  CHECK(run_page(block("false", "<!-- not run: it fails -->") + block("true")) == 0);
  CHECK(run_page(block("false", "<!-- run long -->")) == 4);
  CHECK(run_page(block("false", "<!-- run long -->"), "QRL_LONG_TESTS=1") == 1);
}

TEST_CASE("check_docs: plans a page's recipes") {
  const qrl::test::TempDir dir;
  const std::filesystem::path program = dir / "qrl-train";
  std::ofstream(program) << "#!/bin/sh\ntest \"$2 $3\" = '--dry-run --allow-absent' && grep -qx 'a: 1' \"$1\"\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string environment = "env PATH='" + (dir / "").string() + "':\"$PATH\"";
  CHECK(run_page("<!-- recipe: r.yaml -->\n```yaml\na: 1\n```\n", environment) == 0);
  CHECK(run_page("<!-- recipe: r.yaml -->\n```yaml\na: 2\n```\n", environment) == 1);
}

TEST_CASE("check_docs: the blocks of a page share a folder with the recipes") {
  CHECK(run_page(block("echo 7 >made") + block("test \"$(cat made)\" = 7 && test -d recipes")) == 0);
  CHECK(run_page(block("test -e made")) == 1);
}

TEST_CASE("check_docs: each block of commands has a mark, each mark a block") {
  CHECK(contains(faults("Text.\n\n```sh\ntrue\n```\n"), "README.md:3: this sh block has no mark"));
  CHECK(contains(faults(block("true", "<!-- not run: -->")), "README.md:4: this sh block has no mark"));
  CHECK(contains(faults(block("true", "<!-- run -->\n")), "README.md:5: this sh block has no mark"));
  CHECK(contains(faults("Text.\n```bash\ntrue\n```\n"), "README.md:2: expected ```sh for commands, got ```bash"));
  CHECK(contains(faults("<!-- run -->\n```yaml\na: 1\n```\n"), "README.md:2: expected ```sh below the mark"));
  CHECK(contains(faults("<!-- run -->\ntext\n"), "README.md:1: expected an ```sh block right below this mark"));
  CHECK(contains(faults("```sh\n"), "README.md:1: this fence is never closed"));
  CHECK(is_sound(faults("```yaml\n<!-- run -->\n```\n\n```\nno commands\n```\n" + block("true", "<!-- run long -->"))));
}

TEST_CASE("check_docs: relative links and their anchors resolve in the repository") {
  CHECK(contains(faults("\n[a](nowhere.md)\n"), "README.md:2: broken link nowhere.md: no such file"));
  CHECK(contains(faults("[a]: nowhere.md\n"), "README.md:1: broken link nowhere.md"));
  CHECK(contains(faults("![a](docs/a.png)\n"), "README.md:1: broken link docs/a.png"));
  CHECK(contains(faults("[a](../out)\n"), "README.md:1: broken link ../out: outside of the repository"));
  CHECK(contains(faults("[a](docs/gpu.md#goals)\n"), "gpu.md has no heading with this anchor"));
  CHECK(contains(faults("# A b\n[a](#a-b-1)\n"), "README.md:2: broken link #a-b-1"));
  CHECK(contains(faults("```\n# A\n```\n[a](#a)\n"), "README.md:4: broken link #a"));
  CHECK(contains(faults("[a](src/a.h#L3)\n"), "README.md:1: broken link src/a.h#L3"));
  CHECK(
      is_sound(faults("# A `b`, c!\n## A b c\n[a](#a-b-c) [b](#a-b-c-1) [c](docs/gpu.md#on-a-gpu) [d](src/a.h#L2)\n"
                      "[e](https://example.org/x#y) `[f](nowhere.md)` [g](src)\n")));
}

TEST_CASE("check_docs: a path in code exists, seen from the root or from the page") {
  CHECK(contains(faults("Text.\n`src/b.h`\n"), "README.md:2: `src/b.h` names nothing in the repository"));
  CHECK(contains(faults("`src/b.h --help`\n"), "`src/b.h` names nothing"));
  CHECK(is_sound(faults("`src/a.h` `src/a` `src/NAME.h` `src/b.h` none `perf/mfu` `build/x`\n```\n`src/c.h`\n```\n",
                        "CHANGELOG.md")));
  CHECK(is_sound(faults("`src/a.h` `src/a` `src/NAME.h` `perf/mfu` `build/x`\n```\n`src/c.h`\n```\n")));
  const std::map<std::string, std::string> own = {{"src/README.md", "`base/a` `base/b` `src/base/a.h`\n"},
                                                  {"src/base/a.h", ""}};
  CHECK(contains(check_files(own, "").output, "src/README.md:1: `base/b` names nothing"));
  CHECK(contains(check_files(own, "").output, " 1 failures"));
}

TEST_CASE("check_docs: each page of docs is of one kind by its folder") {
  CHECK(contains(faults("# A\n", "docs/a.md"), "docs/a.md:1: expected a folder of docs for this page"));
  CHECK(contains(faults("# A\n", "docs/notes/a.md"), "docs/notes/a.md:1: docs/notes is no kind of page"));
  CHECK(contains(faults("# A\n", "docs/decisions/a.md"), "docs/decisions/a.md:1: expected a decision's name"));
  for (const char* place : {"docs/README.md", "docs/howto/a.md", "docs/decisions/0001-a.md", "src/a/README.md"})
    CHECK(is_sound(faults("# A\n", place)));
}

TEST_CASE("check_docs: each table of the GPU's figures has device, date and commit above it") {
  const std::string table = "| a |\n|---|\n| 1 |\n";
  const auto of_section = [&](const std::string& line) {
    return faults("# On a GPU\n## Figures\n### Ticks\n" + line + "\n\n" + table, "docs/gpu.md");
  };
  CHECK(is_sound(of_section("An H100, 2026-11-27, commit b68999b2.")));
  CHECK(contains(of_section("An H100, 2026-11-27."),
                 "expected a line above this table with its device, date and commit"));
  CHECK_FALSE(is_sound(of_section("2026-11-27, commit b68999b2.")));
  CHECK(is_sound(faults("# On a GPU\n## How to\n" + table, "docs/gpu.md")));
  CHECK_FALSE(is_sound(
      faults("# On a GPU\n## Figures\nAn H100, 2026-11-27, commit b68999b2.\n### Ticks\n" + table, "docs/gpu.md")));
}

TEST_CASE("check_docs: reads README, CONTRIBUTING, AGENTS, CHANGELOG and every page below its folders") {
  std::map<std::string, std::string> files = {{"build/a.md", "[a](nowhere.md)\n"}};
  const std::vector<std::string> read = {"README.md",
                                         "CONTRIBUTING.md",
                                         "AGENTS.md",
                                         "CHANGELOG.md",
                                         "docs/howto/a/b.md",
                                         "src/a/README.md",
                                         "tests/fuzz/seeds/README.md",
                                         "cuda/gemm/README.md",
                                         "scripts/a.md",
                                         "recipes/math/README.md"};
  for (const std::string& name : read) files[name] = "[a](nowhere.md)\n";
  const std::string output = check_files(files, "").output;
  for (const std::string& name : read) CHECK(contains(output, name + ":1: broken link"));
  CHECK(contains(output, "10 pages, 0 blocks ran, 10 failures"));
}

TEST_CASE("check_docs: compares code with the file that its mark names") {
  const auto faults_of = [](const std::string& code, const std::string& file = "src/a.h") {
    return faults("Text.\n\n<!-- code: " + file + " -->\n```cpp\n" + code + "\n```\n");
  };
  CHECK(is_sound(faults_of("one\ntwo")));
  CHECK(is_sound(faults_of("two")));
  CHECK(contains(faults_of("one\n\ntwo"), "this code is not that of src/a.h"));
  CHECK(contains(faults_of("tw"), "this code is not that of src/a.h"));
  CHECK(contains(faults_of("one", "src/b.h"), "src/b.h, which the mark above names, is no file"));
}
