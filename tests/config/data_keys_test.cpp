// Tests the keys of data files, models and a run's length: what they refuse and the meaning of null. Also tests that
// advice about another trainer's name never denies an existing key.
#include <cstdlib>
#include <fstream>
#include <set>

#include "base/hub.h"
#include "config/keys/other_trainers.h"
#include "support.h"
#include "support/files.h"
#include "train/recipe/load.h"

using namespace qrl;
using namespace qrl::test;
namespace fs = std::filesystem;

TEST_CASE("data keys: other trainers' names lead to ours") {
  const std::pair<const char*, const char*> cases[] = {
      {"sft.files", "sft.train_files"},
      {"sft.demonstrations.files", "sft.train_files"},
      {"sft.num_train_epochs", "sft.epochs"},
      {"max_seq_length", "sft.max_length"},
      {"assistant_only_loss", "sft.loss_on: assistant"},
      {"stop", "rollout.stop"},
      {"stop_sequences", "rollout.stop"},
      {"num_train_epochs", "trainer.total_epochs"},
      {"num_episodes", "trainer.total_epochs"},
      {"max_samples", "data.train_max_samples"},
      {"best_metric_key", "trainer.keep_best"},
      {"metric_for_best_model", "trainer.keep_best"},
      {"checkpoint_must_save_by", "trainer.max_time"},
  };
  for (const auto& [name, key] : cases) {
    const std::string advice = config::advice_for_unknown_key(train::keys(), name);
    INFO(name << ": " << advice);
    CHECK(holds(advice, std::string("here it is ") + key));
  }
  // A key with the same name exists, so no row of the table may say "none" for it.
  for (const config::Alias& alias : config::aliases(train::keys())) {
    INFO(alias.name);
    CHECK(train::keys().find(alias.name) == nullptr);
  }
}

TEST_CASE("sft.train_files: without steps and epochs there is no cold start") {
  CHECK(faults("sft: {train_files: [a.jsonl]}").empty());
}

TEST_CASE("time: read and printed in its largest units") {
  CHECK(read("trainer: {max_time: 3h50m}").trainer.max_time == 13'800);
  CHECK(read("trainer: {max_time: 1d2s}").trainer.max_time == 86'402);
  CHECK(read("trainer: {max_time: 1d23h59m59s}").trainer.max_time == 172'799);
  CHECK(read("trainer: {max_time: 90m}").trainer.max_time == 5'400);
  CHECK_FALSE(read("trainer: {max_time: null}").trainer.max_time.has_value());
  const auto& key = *train::keys().find("trainer.max_time");
  train::Recipe recipe = train::keys().defaults();
  recipe.trainer.max_time = 90'061;
  CHECK(key.print(recipe) == "1d1h1m1s");
}

TEST_CASE("sft.max_length, eval.stop: default to the micro-batch and to rollout.stop") {
  CHECK(read("sft: {train_files: [a]}").sft.max_length == 4096);
  CHECK_FALSE(read("rollout: {n: 4}").sft.max_length.has_value());
  CHECK_FALSE(read("rollout: {stop: [a]}").eval.stop.has_value());
  CHECK(read("{rollout: {stop: [a]}, eval: {stop: []}}").eval.stop->empty());
}

TEST_CASE("model.path: a Hub name is looked up in the local cache and pinned to its commit") {
  const TempDir dir;
  const fs::path cache = dir / "hub", repository = cache / "models--Qwen--Qwen3-0.6B";
  fs::create_directories(repository / "snapshots/abc123");
  fs::create_directories(repository / "refs");
  std::ofstream(repository / "refs/main") << "abc123";
  setenv("HF_HUB_CACHE", cache.c_str(), 1);
  CHECK(read("model: {path: Qwen/Qwen3-0.6B}").model.path == "Qwen/Qwen3-0.6B@abc123");
  CHECK(read("model: {path: Qwen/Qwen3-0.6B@main}").model.path == "Qwen/Qwen3-0.6B@abc123");
  CHECK(base::model_folder("Qwen/Qwen3-0.6B@abc123") == repository / "snapshots/abc123");
  // A hub name that is not cached stays unchanged: a recipe can be read and printed without the model.
  CHECK(read("model: {path: Qwen/Qwen3-4B@v1}").model.path == "Qwen/Qwen3-4B@v1");
  CHECK(base::local_model("Qwen/Qwen3-0.6B") == repository / "snapshots/abc123");
  CHECK(base::local_model("Qwen/Qwen3-4B") == "Qwen/Qwen3-4B");
  CHECK(base::local_model(dir.path().string()) == dir.path());
  const auto refusal = [](const std::string& name) -> std::string {
    try {
      return base::model_folder(name).string();
    } catch (const base::Error& error) {
      CHECK(error.exit_code() == 2);
      return error.what();
    }
  };
  CHECK(holds(refusal("Qwen/Qwen3-4B@v1"),
              "qrl-train does not download models: run hf download Qwen/Qwen3-4B --revision v1"));
  CHECK(holds(refusal("Qwen/Qwen3-0.6B@other"), "hf download Qwen/Qwen3-0.6B --revision other"));
  // Other texts are paths; an existing folder takes precedence over a hub name.
  CHECK(read("model: {path: models/a/b}").model.path == "/d/models/a/b");
  CHECK(read("model: {path: ../Qwen}").model.path == "/Qwen");
  fs::create_directories(dir / "Qwen/Qwen3-0.6B");
  const auto there =
      train::parse_recipe(train::keys(), "model: {path: Qwen/Qwen3-0.6B}", "r.yaml", dir.path(), {}, false);
  CHECK(there.recipe.model.path == (dir / "Qwen/Qwen3-0.6B").string());
  unsetenv("HF_HUB_CACHE");
  setenv("HF_HOME", (dir / "home").c_str(), 1);
  CHECK(base::hub_cache() == dir / "home/hub");
  unsetenv("HF_HOME");
}
