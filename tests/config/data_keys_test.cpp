// Tests the keys of data files, models and a run's length: what they refuse and the meaning of null. Also tests that
// advice about another trainer's name never denies an existing key.
#include <cstdlib>
#include <fstream>
#include <set>

#include "base/hub.h"
#include "config/keys/other_trainers.h"
#include "config/reader.h"
#include "support.h"
#include "support/files.h"

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
  for (const config::Alias& alias : config::aliases(train::keys().catalog())) {
    INFO(alias.name);
    CHECK(train::keys().find(alias.name) == nullptr);
  }
}

TEST_CASE("data keys: refused without effect, and where one contradicts another") {
  const std::string files = "train_files: [a.jsonl]", task = "demonstrations: {task: countdown}";
  const std::pair<std::string, const char*> cases[] = {
      {"sft: {steps: 1, " + files + ", " + task + "}",
       "no sft.demonstrations.task with sft.train_files, got countdown"},
      {"sft: {steps: 1, epochs: 1, " + files + "}", "sft.steps 0 with sft.epochs, got 1"},
      {"sft: {epochs: 1}", "sft.train_files with sft.epochs, got none"},
      {"sft: {val_files: [a]}", "sft.train_files with sft.val_files"},
      {"sft: {shuffle: false}", "sft.train_files with sft.shuffle"},
      {"sft: {loss_on: last}", "sft.train_files with sft.loss_on"},
      {"sft: {overlong: filter}", "sft.train_files with sft.overlong"},
      {"sft: {max_length: 5}", "sft.train_files with sft.max_length"},
      {"actor: {max_tokens_per_micro_batch: 4096}\nsft: {max_length: 9000, " + files + "}",
       "sft.max_length of at most actor.max_tokens_per_micro_batch = 4096"},
      {"sft: {max_length: 1, " + files + "}", "integer"},
      {"sft: {loss_on: user, " + files + "}", "assistant | last | all"},
      {"sft: {overlong: cut, " + files + "}", "error | filter | truncate"},
      {"sft: {train_files: a.jsonl}", "write a list"},
      {"trainer: {total_epochs: 2, total_training_steps: 5}",
       "total_training_steps 100 with trainer.total_epochs, got 5"},
      {"{trainer: {total_epochs: 2}, algorithm: {filter_groups: {enable: true}}}",
       "algorithm.filter_groups.enable false with trainer.total_epochs above 0"},
      {"{trainer: {total_epochs: 2}, data: {train_files: [a], train_weights: [1]}}",
       "no data.train_weights with trainer.total_epochs above 0"},
      {"trainer: {total_epochs: -1}", "integer"},
      {"data: {train_files: [a], train_weights: [1], train_max_samples: 3}",
       "no data.train_weights with data.train_max_samples"},
      {"data: {train_max_samples: 0}", "integer"},
      {"data: {val_max_samples: all}", "integer"},
      {"rollout: {stop: text}", "write a list"},
      {"rollout: {stop: [\"\"]}", "an empty text in the list"},
      {"eval: {stop: [\"\"]}", "an empty text in the list"},
      {"{trainer: {keep_best: val/a/mean@8}, eval: {freq: 0}}", "eval.freq above 0 with trainer.keep_best, got 0"},
      {"trainer: {max_time: 3600}", "write 3h50m, 45m or 90s"},
      {"trainer: {max_time: 5m3h}", "write 3h50m"},
      {"trainer: {max_time: 3x}", "write 3h50m"},
      {"trainer: {max_time: 0s}", "write 3h50m"},
      {"trainer: {max_time: h}", "write 3h50m"},
      {"trainer: {max_time: 3h99m}", "got \"3h99m\"; after a larger unit write at most 23h, 59m and 59s"},
      {"trainer: {max_time: 1m60s}", "after a larger unit"},
      {"trainer: {max_time: 1d24h}", "after a larger unit"},
  };
  for (const auto& [yaml, expected] : cases) {
    INFO(yaml);
    const std::string text = fault(yaml);
    INFO(text);
    CHECK(holds(text, expected));
  }
  CHECK(faults("sft: {" + files + "}").empty());  // without steps and epochs there is no cold start
}

TEST_CASE("time: read and printed in its largest units") {
  CHECK(read("trainer: {max_time: 3h50m}").trainer.max_time == 13'800);
  CHECK(read("trainer: {max_time: 1d2s}").trainer.max_time == 86'402);
  CHECK(read("trainer: {max_time: 1d23h59m59s}").trainer.max_time == 172'799);
  CHECK(read("trainer: {max_time: 90m}").trainer.max_time == 5'400);
  CHECK_FALSE(read("trainer: {max_time: null}").trainer.max_time.has_value());
  const auto& key = *train::keys().find("trainer.max_time");
  config::Recipe recipe = train::keys().defaults();
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
      config::parse_recipe(train::keys(), "model: {path: Qwen/Qwen3-0.6B}", "r.yaml", dir.path(), {}, false);
  CHECK(there.recipe.model.path == (dir / "Qwen/Qwen3-0.6B").string());
  unsetenv("HF_HUB_CACHE");
  setenv("HF_HOME", (dir / "home").c_str(), 1);
  CHECK(base::hub_cache() == dir / "home/hub");
  unsetenv("HF_HOME");
}
