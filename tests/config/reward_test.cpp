// Tests the keys of the verifier: maps, a command and its settings, contradictions.
#include <filesystem>
#include <fstream>

#include "config/printer.h"
#include "support.h"
#include "train/recipe/load.h"

using namespace qrl;
using namespace qrl::test;

namespace {

const std::string kCommand = "reward: {verifier: command, command: [python3, judge.py], ";

bool says(const std::string& yaml, const std::string& words) {
  const std::string line = fault(yaml);
  INFO(yaml << ": " << line);
  CHECK(line.find(words) != std::string::npos);
  return line.find(words) != std::string::npos;
}

std::string printed(const train::Recipe& recipe, std::string_view key) { return recipe.keys->find(key)->print(recipe); }

}  // namespace

TEST_CASE("maps: read whole, replaced whole, printed in one line") {
  const train::Recipe recipe = read(kCommand + "weights: {format: 0.2, correct: 1}}");
  CHECK(recipe.reward.weights == std::map<std::string, double>{{"correct", 1}, {"format", 0.2}});
  CHECK(printed(recipe, "reward.weights") == R"({"correct": 1.0, "format": 0.2})");
  const train::Recipe changed = read(kCommand + "weights: {format: 0.2}}", {"reward.weights={correct: 2}"});
  CHECK(changed.reward.weights == std::map<std::string, double>{{"correct", 2}});
  CHECK(printed(read(kCommand + "weights: {}}"), "reward.weights") == "{}");
  const train::Recipe sources =
      read("reward: {verifier: math, by_source: {openai/gsm8k: math, 'own tasks/x': countdown}}");
  CHECK(sources.reward.by_source.at("own tasks/x") == "countdown");
  CHECK(printed(sources, "reward.by_source") == R"({"openai/gsm8k": math, "own tasks/x": countdown})");
  CHECK(says(kCommand + "weights: {" + std::string(65, 'a') + ": 1}}", "names have 1 to 64 letters"));
}

TEST_CASE("reward.command: runs in the folder of the recipe that names it, or in reward.folder") {
  CHECK(read(kCommand + "}").reward.folder == "/d");
  CHECK(read(kCommand + "folder: other}").reward.folder == "/d/other");
  CHECK(read("reward: {folder: other, verifier: command, command: [a]}").reward.folder == "/d/other");
  const train::LoadedRecipe loaded =
      train::parse_recipe(train::keys(), kCommand + "}", "r.yaml", "/d", Overrides{}, false);
  const train::LoadedRecipe again =
      train::parse_recipe(train::keys(), loaded.resolved_yaml, "config.yaml", "/e", Overrides{}, false);
  CHECK(again.recipe == loaded.recipe);
  CHECK(read("trainer: {seed: 1}").reward.folder.empty());
}

TEST_CASE("verifier keys: allowed where reward.by_source names the verifier") {
  CHECK(faults("reward: {by_source: {gsm8k: math}, profile: boxed}").empty());
  CHECK(faults("reward: {by_source: {mine: command}, command: [a], weights: {s: 2}, correct: 3}").empty());
  CHECK(printed(read("reward: {by_source: {gsm8k: math}}"), "reward.by_source") == R"({"gsm8k": math})");
}

TEST_CASE("normalize_then_sum: has its own advantages, and excludes settings that would change them") {
  const std::string gdpo = "reward: {aggregation: normalize_then_sum}";
  CHECK(faults(gdpo).empty());
  CHECK(says(gdpo + "\nalgorithm: {adv_estimator: rloo}", "algorithm.adv_estimator grpo with reward.aggregation"));
  CHECK(says(gdpo + "\nalgorithm: {norm_adv_by_std: false}", "algorithm.norm_adv_by_std true with"));
}

TEST_CASE("resume: division of work may change, training settings only with --allow-change") {
  const auto of = [](const char* key) { return train::keys().find(key)->on_resume; };
  for (const char* key : {"reward.workers", "reward.timeout_s", "reward.memory_mb", "reward.in_flight", "reward.env"})
    CHECK(of(key) == config::OnResume::free);
  for (const char* key : {"reward.command", "reward.weights", "reward.by_source", "reward.aggregation"})
    CHECK(of(key) == config::OnResume::allow_change);
}

namespace {

/// Holds a recipe with its includes; `files` maps names to texts.
class Family {
 public:
  explicit Family(const std::vector<std::pair<std::string, std::string>>& files) {
    for (const auto& [name, text] : files) {
      std::filesystem::create_directories((dir_ / name).parent_path());
      std::ofstream(dir_ / name) << text;
    }
  }
  train::LoadedRecipe load(const std::string& name, const Overrides& overrides = {}) const {
    return train::load_recipe(train::keys(), dir_ / name, overrides, false);
  }
  std::string fault(const std::string& name, const Overrides& overrides = {}) const {
    try {
      (void)load(name, overrides);
    } catch (const base::Error& error) {
      return error.what();
    }
    return "accepted";
  }
  std::string path(const std::string& name) const { return (dir_ / name).string(); }

 private:
  TempDir dir_;
};

}  // namespace

TEST_CASE("include: another verifier drops the included verifier's keys") {
  const Family family({{"base/add.yaml", "reward: {verifier: command, command: [python3, judge.py], workers: 2}\n"},
                       {"folder.yaml", "include: base/add.yaml\nreward: {folder: /tmp}\n"},
                       {"math.yaml", "include: base/add.yaml\nreward: {verifier: math, profile: boxed}\n"},
                       {"deep.yaml", "include: folder.yaml\nreward: {verifier: math, profile: boxed}\n"},
                       {"empty.yaml", "include: base/add.yaml\nreward: {verifier: math, command: []}\n"},
                       {"back.yaml", "include: math.yaml\nreward: {verifier: command, command: [python3, other.py]}\n"},
                       {"same.yaml", "include: base/add.yaml\nreward: {command: [python3, other.py]}\n"},
                       {"both.yaml", "reward: {verifier: math, command: [python3, judge.py]}\n"},
                       {"late.yaml", "include: math.yaml\nreward: {workers: 3}\n"}});
  for (const char* name : {"math.yaml", "deep.yaml", "empty.yaml"}) {
    INFO(name);
    const train::LoadedRecipe loaded = family.load(name);
    const train::RewardRecipe& reward = loaded.recipe.reward;
    CHECK(reward.verifier == "math");
    CHECK(reward.argv.empty());
    CHECK(reward.folder.empty());
    CHECK(reward.workers == train::RewardRecipe{}.workers);
    CHECK(loaded.origins.count("reward.workers") == 0);
    CHECK(parse_recipe(train::keys(), loaded.resolved_yaml, "again", "", {}, false).resolved_yaml ==
          loaded.resolved_yaml);
  }
  const train::Recipe by_set = family.load("folder.yaml", {"reward.verifier=math", "reward.profile=boxed"}).recipe;
  CHECK((by_set.reward.argv.empty() && by_set.reward.folder.empty()));
  CHECK(printed(by_set, "reward.profile") == "boxed");
  const train::Recipe back = family.load("back.yaml").recipe;
  CHECK(back.reward.argv == std::vector<std::string>{"python3", "other.py"});
  CHECK(printed(back, "reward.profile") == "auto");
  CHECK(back.reward.folder == std::filesystem::path(family.path("back.yaml")).parent_path());
  // A recipe's command runs in that recipe's folder, wherever the included recipe is.
  CHECK(family.load("base/add.yaml").recipe.reward.folder == std::filesystem::path(family.path("base")));
  CHECK(family.load("same.yaml").recipe.reward.folder == std::filesystem::path(family.path("same.yaml")).parent_path());
  // A key that a recipe's verifier excludes is a fault in that recipe, in one that includes it, and in --set.
  CHECK(holds(family.fault("both.yaml"), "reward.command: expected reward.verifier command"));
  CHECK(holds(family.fault("late.yaml"), "reward.workers: expected reward.verifier command"));
  CHECK(holds(family.fault("math.yaml", {"reward.workers=3"}), "reward.workers: expected reward.verifier command"));
}

TEST_CASE("include: another loss, correction or optimizer drops the included one's keys") {
  const Family family(
      {{"base.yaml", "algorithm: {name: sapo, sapo: {tau_pos: 2}}\noptim: {name: muon, muon: {momentum: 0.5}}\n"},
       {"top.yaml", "include: base.yaml\nalgorithm: {name: grpo}\noptim: {name: adamw}\n"}});
  const train::Recipe base = family.load("base.yaml").recipe, top = family.load("top.yaml").recipe;
  CHECK(printed(base, "algorithm.sapo.tau_pos") == "2.0");
  CHECK(printed(top, "algorithm.sapo.tau_pos") == printed(train::keys().defaults(), "algorithm.sapo.tau_pos"));
  CHECK(family.load("base.yaml", {"algorithm.name=grpo", "optim.name=adamw"}).recipe.algorithm.name == "grpo");
}

TEST_CASE("reward.env: accepts only variable names, and shows no values") {
  const std::string command = "reward: {verifier: command, command: [judge], env: ";
  CHECK(says(command + "[HF_TOKEN=abcd]}", "got \"HF_TOKEN\""));
  CHECK(fault(command + "[HF_TOKEN=abcd]}").find("abcd") == std::string::npos);
  for (const char* name : {"2X", "A B", "a-b"})
    CHECK(says(command + "[" + name + "]}", "a recipe never contains the value"));
}
