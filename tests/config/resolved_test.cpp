// Tests the printed recipe, changes between recipes, and the pages generated from the keys.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "config/printer.h"
#include "random_recipe.h"
#include "reference_pages.h"
#include "support.h"
#include "train/recipe/automatic.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

using namespace qrl;
using namespace qrl::test;
using train::Recipe;

namespace {

std::string file_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

TEST_CASE("printed recipe: reads back equal") {
  std::map<std::string, int> num_set;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const Recipe recipe = RandomRecipe(i).next();
    const std::string yaml = config::resolved_yaml(*recipe.keys, recipe);
    INFO(yaml);
    const train::LoadedRecipe loaded = train::parse_recipe(train::keys(), yaml, "r.yaml", "", {}, true);
    REQUIRE(loaded.recipe == recipe);
    REQUIRE(loaded.resolved_yaml == yaml);
    for (const config::Key& key : train::keys().all())
      num_set[key.name] += key.print(recipe) != key.print(train::keys().defaults()) ? 1 : 0;
  }
  std::string never;
  for (const auto& [name, count] : num_set)
    if (count == 0) never += " " + name;
  INFO("never drawn:" << never);
  CHECK(std::ranges::count(never, ' ') < std::ssize(num_set) / 4);
}

TEST_CASE("printed values: give the same recipe as overrides") {
  for (std::uint64_t i = 0; i < 10; ++i) {
    const Recipe recipe = RandomRecipe(1000 + i).next();
    Overrides overrides;
    for (const config::Key& key : train::keys().all()) overrides.push_back(key.name + "=" + key.print(recipe));
    INFO(config::resolved_yaml(*recipe.keys, recipe));
    REQUIRE(read("trainer: {seed: 1}", overrides, true) == recipe);
  }
}

TEST_CASE("automatic keys: what was accepted with 0.2's defaults stays accepted whatever is decided") {
  const train::Keys all(train::keys().catalog(), {.on_cpu = true, .on_gpu = true, .bitwise = true});
  int num_accepted = 0;
  for (std::uint64_t i = 0; i < 25; ++i) {
    const Recipe recipe = RandomRecipe(2000 + i).next();
    Overrides open;
    for (const config::Key& key : train::keys().all())
      if (key.name != "mode" && std::ranges::count(train::kAutomaticKeys, key.name) == 0)
        open.push_back(key.name + "=" + key.print(recipe));
    Overrides former = open;
    former.insert(former.end(), {"quant.learner.forward=bf16", "rollout.bitwise=false"});
    const std::string kv_cache =
        "quant.rollout.kv_cache=" + train::keys().find("quant.rollout.kv_cache")->print(recipe);
    for (Overrides* each : {&open, &former}) each->push_back(kv_cache);
    if (!faults("trainer: {seed: 1}", former, true).empty()) continue;
    ++num_accepted;
    INFO(config::resolved_yaml(*recipe.keys, recipe));
    Recipe resolved = train::parse_recipe(all, "trainer: {seed: 1}", "r.yaml", "/d", open, true).recipe;
    (void)train::resolve_automatic(resolved);
    REQUIRE_NOTHROW(train::parse_recipe(all, config::resolved_yaml(all, resolved), "r.yaml", "/d", {}, true));
  }
  CHECK(num_accepted >= 10);
}

TEST_CASE("resolved recipe: values filled in by the reader survive printing and reading") {
  const std::string yaml =
      "{model: {init: {config: c}}, data: {train_generator: {task: countdown, size: 5}}, trainer: {seed: 3}}";
  const train::LoadedRecipe first = train::parse_recipe(train::keys(), yaml, "r.yaml", "", {}, true);
  const train::LoadedRecipe second =
      train::parse_recipe(train::keys(), first.resolved_yaml, "config.yaml", "", {}, true);
  CHECK(first.recipe == second.recipe);
  CHECK(first.resolved_yaml == second.resolved_yaml);
  CHECK(config::changes_on_resume(train::keys(), first.recipe, second.recipe).empty());
}

TEST_CASE("printed reals and texts: YAML 1.1 parsers read them equally") {
  Recipe recipe = train::keys().defaults();
  recipe.optim.lr = 1e-6;
  recipe.optim.weight_decay = 1;
  recipe.optim.grad_clip = 1e22;
  recipe.model.path = "no";
  recipe.trainer.default_local_dir = "a\xe2\x80\xa8\xc3\xa9";
  const std::string yaml = config::resolved_yaml(*recipe.keys, recipe);
  CHECK(holds(yaml, "\noptim:\n  name: adamw\n  lr: 1.0e-6\n"));
  CHECK(holds(yaml, "  weight_decay: 1.0\n"));
  CHECK(holds(yaml, "  default_local_dir: \"a\\u2028\xc3\xa9\"\n"));
  CHECK(holds(yaml, "  grad_clip: 1.0e+22\n"));
  CHECK(holds(yaml, "model:\n  path: \"no\"\n  dtype: bfloat16\n  init:\n    config: null\n"));
}

TEST_CASE("changes on resume: changed keys are named, except those that may change") {
  const Recipe before = train::keys().defaults();
  Recipe after = train::keys().defaults();
  after.trainer.total_training_steps = 7;
  after.trainer.save_freq = 7;
  after.sft.save_freq = 7;
  after.trainer.max_ckpt_to_keep = 7;
  after.trainer.resume_from.mode = train::ResumeMode::never;
  after.trainer.default_local_dir = "x";
  after.trainer.rollout_dump = false;
  after.trainer.tensorboard = false;
  after.eval.freq = 7;
  after.eval.before_train = false;
  after.quant.kv_margin = 1.05;  // removes fp8 keys and values
  CHECK(config::changes_on_resume(*before.keys, before, after).empty());
  after.optim.lr = 2e-6;
  after.rollout.kv_pages = 100;
  after.rollout.page_size = 32;
  after.trainer.seed = 1;
  std::vector<std::string> text;
  for (const config::KeyChange& change : config::changes_on_resume(*before.keys, before, after))
    text.push_back(change.key + " " + change.before + " " + change.after + (change.may_be_allowed ? " may" : ""));
  CHECK(text == std::vector<std::string>{"rollout.page_size 16 32", "optim.lr 1.0e-6 2.0e-6 may", "trainer.seed 0 1"});
}

TEST_CASE("keys: each declared once with its meaning, its default equal to the struct's") {
  std::map<std::string, int> seen;
  const Recipe drawn = RandomRecipe(5).next();
  for (const config::Key& key : train::keys().all()) {
    INFO(key.name);
    CHECK(++seen[key.name] == 1);
    CHECK_FALSE(key.meaning.empty());
    CHECK_FALSE(train::keys().is_section(key.name));
    Recipe recipe = drawn;
    key.reset(recipe);
    CHECK(key.print(recipe) == key.print(train::keys().defaults()));
    CHECK((key.print(train::keys().defaults()) == "null") == !key.unset.empty());
  }
}

TEST_CASE("keys help: one line for each key") {
  const std::string help = config::keys_help(train::keys());
  CHECK(holds(help, "  float > 0, default 1.0e-6  peak learning rate\n"));
  CHECK(static_cast<std::size_t>(std::count(help.begin(), help.end(), '\n')) == train::keys().all().size());
}

TEST_CASE("the committed reference pages: equal those made from the keys") {
  // After a change of keys: QRL_WRITE_REFERENCE=1 test_config "the committed reference page*" regenerates the pages.
  const std::filesystem::path folder = std::filesystem::path(QRL_SOURCE_DIR) / "docs" / "reference";
  const std::pair<const char*, std::string> pages[] = {{"recipe-keys.md", keys_markdown(train::keys())},
                                                       {"other-trainers.md", other_trainers_markdown(train::keys())}};
  for (const auto& [name, text] : pages) {
    INFO(name);
    if (std::getenv("QRL_WRITE_REFERENCE") != nullptr) std::ofstream(folder / name, std::ios::binary) << text;
    CHECK(file_text(folder / name) == text);
  }
}
