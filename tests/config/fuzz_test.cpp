// Damaged recipes raise input errors and nothing else.
#include "support/fuzz.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/rng.h"
#include "config/printer.h"
#include "support.h"

using namespace qrl;
using namespace qrl::test;

namespace {

constexpr std::array<const char*, 40> kFragments = {":",          ": ",       "- ",       "[",
                                                    "]",          "{",        "}",        ",",
                                                    "\n",         "\n  ",     "\r\n",     "\t",
                                                    "&a ",        "*a",       "!t ",      "!",
                                                    "\"",         "'",        "|\n",      "> ",
                                                    "---\n",      "...",      "%TAG",     "#",
                                                    "<<: *a",     "?",        "~",        "null",
                                                    "\\",         "010",      "1e999",    ".nan",
                                                    "@",          "\xc3\xa9", "\xff",     "\xef\xbb\xbf",
                                                    "include: x", "lr: ",     "optim:\n", "rollout: {n: "};

constexpr std::size_t kNumSound = 3;

/// kNumSound sound recipes, then malformed ones.
std::vector<std::string> seeds() {
  std::vector<std::string> texts = {
      config::resolved_yaml(config::Recipe{}),
      "optim: &o {lr: 1e-6, betas: [0.9, 0.99]}\ntrainer: {seed: &s 1}\ndata: {seed: *s}\n",
      "# c\nmodel:\n  path: \"a b\"\n  init:\n    config: 'c'\ndata:\n  train_files:\n  - a\n  - b\n"};
  for (const auto& entry : std::filesystem::directory_iterator(shipped_data() / "malformed" / "recipe")) {
    std::ifstream stream(entry.path(), std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>{});
  }
  return texts;
}

void damage(std::string& text, base::RandomStream& draw) {
  const auto place = static_cast<std::size_t>(draw.below(text.size() + 1));
  const auto length = static_cast<std::size_t>(draw.below(9));
  switch (draw.below(5)) {
    case 0:
      text.insert(place, kFragments[draw.below(kFragments.size())]);
      break;
    case 1:
      text.erase(place, length);
      break;
    case 2:
      text.insert(place, text.substr(draw.below(text.size() + 1), 4 * length));
      break;
    case 3:
      text.resize(place);
      break;
    default:
      if (place < text.size()) text[place] = static_cast<char>(draw.below(256));
  }
}

}  // namespace

TEST_CASE("damaged recipes raise input errors and nothing else") {
  const auto num_runs = static_cast<int>(fuzz_runs(20000));
  const std::vector<std::string> texts = seeds();
  int num_read = 0, num_refused = 0;
  for (int run = 0; run < num_runs; ++run) {
    base::RandomStream draw(1, base::RandomPurpose::test, static_cast<std::uint64_t>(run));
    // Half of the runs damage a sound recipe: what is near to right goes deepest.
    std::string text = texts[draw.below(draw.below(2) == 0 ? kNumSound : texts.size())];
    for (std::uint64_t i = 0, n = 1 + draw.below(4); i < n; ++i) damage(text, draw);
    Overrides overrides;
    if (draw.below(4) == 0) {
      std::string argument = "optim.betas=[0.9, 0.99]";
      damage(argument, draw);
      overrides.push_back(argument);
    }
    try {
      const config::LoadedRecipe loaded = config::parse_recipe(text, "f.yaml", "/nonexistent", overrides, false);
      ++num_read;
      // What was read is a recipe: it prints and reads back.
      const config::LoadedRecipe again = config::parse_recipe(loaded.resolved_yaml, "f.yaml", "", {}, false);
      if (!(again.recipe == loaded.recipe)) FAIL("run " << run << " does not read back: " << text);
    } catch (const base::Error& error) {
      ++num_refused;
      if (error.exit_code() != 2) FAIL("run " << run << " is no input error: " << error.what());
    } catch (const std::exception& error) {
      FAIL("run " << run << " raised something else: " << error.what() << "\n" << text);
    }
  }
  CHECK(num_read > num_runs / 50);
  CHECK(num_refused > num_runs / 4);
}
