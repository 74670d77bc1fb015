// Tests values, keys, includes, overrides and rules of recipes.
#include <fstream>
#include <string>

#include "support.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

using namespace qrl;
using namespace qrl::test;

namespace {

void write(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; }

}  // namespace

TEST_CASE("numbers: accepted decimal forms and bounds, and a refused one of 5,000 digits") {
  CHECK(holds(fault("optim: {lr: " + std::string(5000, '1') + "}"), "float > 0"));
  CHECK(read("optim: {lr: 1e-6}").optim.lr == 1e-6);
  CHECK(read("optim: {lr: 2}").optim.lr == 2);
  CHECK(read("optim: {lr: +.5E-3}").optim.lr == 0.5e-3);
  CHECK(read("trainer: {seed: 18446744073709551615}").trainer.seed == 18446744073709551615U);
  CHECK(read("eval: {temperature: -0.0}").eval.temperature == 0);
  CHECK_FALSE(std::signbit(read("eval: {temperature: -0.0}").eval.temperature));
  CHECK(read("rollout: {top_k: -1}").rollout.top_k == -1);
  CHECK(read("trainer: {threads: auto}").trainer.threads == 0);
  CHECK(read("trainer: {threads: 3}").trainer.threads == 3);
}

TEST_CASE("flags: only true and false") {
  for (const std::string word : {"yes", "on", "True", "TRUE", "y", "1"}) {
    CHECK(holds(fault("data: {shuffle: " + word + "}"), "expected true | false, got \"" + word + "\"; write true"));
  }
  for (const std::string word : {"no", "off", "False", "n", "0"}) {
    CHECK(holds(fault("data: {shuffle: " + word + "}"), "; write false"));
  }
  CHECK_FALSE(read("data: {shuffle: false}").data.shuffle);
  CHECK(read("trainer: {rollout_dump: true}").trainer.rollout_dump);
}

TEST_CASE("bare words: refused as text if other YAML parsers read them differently, accepted in quotes") {
  for (const std::string word :
       {"no", "yes", "On", "off", "TRUE", "y", "010", "12", "1e3", "1_000", "12:30:45", "0x1f", ".5"}) {
    INFO(word);
    CHECK(holds(fault("data: {train_files: [" + word + "]}"), "write \"" + word + "\" in quotes"));
    CHECK(read("data: {train_files: ['" + word + "']}").data.train_files.at(0) == "/d/" + word);
  }
  for (const std::string word : {"nope", "007-run", "1.2.3", "a.jsonl", "2024-01-01", "v1"}) {
    CHECK(read("data: {train_files: [" + word + "]}").data.train_files.at(0) == "/d/" + word);
  }
}

TEST_CASE("null: allowed only for keys that are unset by default") {
  CHECK(read("model: {path: a}", {"model.path=null"}).model.path.empty());
  CHECK(read("data: {seed: null}\ntrainer: {seed: 5}").data.seed == 5);
  CHECK(read("rollout: {kv_pages: 900}", {"rollout.kv_pages=null"}).rollout.kv_pages == 0);
}

TEST_CASE("choices: a word in quotes is the word") {
  CHECK(read("quant: {rollout: {weights: \"bf16\"}}").quant.weights == train::WeightFormat::bf16);
}

TEST_CASE("weight formats: int4 accepts int8 activations") {
  CHECK(read("quant: {rollout: {weights: int4, activations: int8}}").quant.activations ==
        train::ActivationFormat::int8);
}

TEST_CASE("errors: all faults are reported at once, each with its line") {
  const auto lines = faults("optim: {lr: fast}\nrollout:\n  n: 2\n  top_k: 0\nlearning_rate: 3\n",
                            {"trainer.seed=010", "oops", "n=3"});
  REQUIRE(lines.size() == 7);
  CHECK(holds(lines[0], "r.yaml:1: optim.lr: "));
  CHECK(holds(lines[1], "r.yaml:4: rollout.top_k: "));
  CHECK(holds(lines[2], "--set trainer.seed: expected"));
  CHECK(holds(lines[3], "--set oops: expected KEY=VALUE"));
  CHECK(holds(lines[4], "2 unknown keys"));
  CHECK(holds(lines[5], "  r.yaml:5: learning_rate: here it is optim.lr"));
  CHECK(holds(lines[6], "  --set n: did you mean rollout.n or eval.n?"));
}

TEST_CASE("required keys: one given under another trainer's name is not reported missing as well") {
  const auto lines = faults("model_name_or_path: /m\ndataset_name: d\noptim: {lr: fast}\n", {});
  REQUIRE(lines.size() == 4);  // not among them: a model and training data, which reading does not require
  CHECK(holds(lines[0], "optim.lr: "));
  CHECK(holds(lines[2], "here it is model.path"));
  CHECK(holds(lines[3], "here it is data.train_files"));
}

TEST_CASE("required keys: those of a section that is no map are not reported missing as well") {
  CHECK(fault("model: /m\ndata: {train_files: [a]}", {}, true) ==
        "r.yaml:1: model: expected a section of keys, got \"/m\"; such as model.path");
}

TEST_CASE("overrides: YAML values with the same checks, the last one wins") {
  CHECK(read("optim: {lr: 1}", {"optim.lr=2", "optim.lr=3"}).optim.lr == 3);
  CHECK(read("optim: {lr: 1}", {"optim.betas=[0.8, 0.9]"}).optim.betas == std::vector<double>{0.8, 0.9});
  CHECK(read("optim: {lr: 1}", {"optim={lr: 2, eps: 3}"}).optim.eps == 3);
  CHECK(read("optim: {lr: 1}", {"model.path=/a=b"}).model.path == "/a=b");
  CHECK(read("optim: {lr: 1}", {"model.path='/a # b'"}).model.path == "/a # b");
  CHECK(holds(fault("optim: {lr: 1}", {"model.path=a # b"}), "--set model.path: expected one plain value"));
  CHECK(holds(fault("optim: {lr: 1}", {"optim=3"}), "--set optim: expected a section of keys, got \"3\""));
  CHECK(holds(fault("optim: {lr: 1}", {"optim=null"}), "--set optim: expected a section of keys, got null"));
  CHECK(holds(fault("optim: {lr: 1}", {"optim={lr: x}"}), "--set optim: optim.lr: expected float > 0"));
  CHECK(holds(fault("optim: {lr: 1}", {"optim.lr={"}), "--set optim.lr: expected well-formed YAML"));
  CHECK(holds(fault("optim: {lr: 1}", {"=3"}), "expected KEY=VALUE"));
  CHECK(holds(fault("optim: {lr: 1}", {"include=x.yaml"}), "--set include: expected a recipe key"));
}

TEST_CASE("include: read first, relative to the including file") {
  const TempDir dir;
  std::filesystem::create_directories(dir / "sub");
  write(dir / "sub" / "base.yaml", "optim: {lr: 0.5, eps: 0.25}\nmodel: {path: m}\n");
  write(dir / "top.yaml", "optim: {lr: 0.125}\ninclude: sub/base.yaml\n");
  const train::Recipe recipe = train::load_recipe(train::keys(), dir / "top.yaml", {}, false).recipe;
  CHECK(recipe.optim.lr == 0.125);
  CHECK(recipe.optim.eps == 0.25);
  CHECK(recipe.model.path == (dir / "sub" / "m").string());
  CHECK(recipe.trainer.default_local_dir == "runs/top-seed0");

  const auto error_of = [](const std::filesystem::path& file) -> std::string {
    try {
      train::load_recipe(train::keys(), file, {}, false);
      return "no fault";
    } catch (const base::Error& error) {
      return error.what();
    }
  };
  write(dir / "bad.yaml", "include: sub/wrong.yaml\ntrainer: {seed: x}\n");
  write(dir / "sub" / "wrong.yaml", "\noptim: {lr: x}\n");
  CHECK(holds(error_of(dir / "bad.yaml"), "wrong.yaml:2: optim.lr: "));
  CHECK(holds(error_of(dir / "bad.yaml"), "bad.yaml:2: trainer.seed: "));
  write(dir / "a.yaml", "include: b.yaml\n");
  write(dir / "b.yaml", "\ninclude: ./sub/../a.yaml\n");
  CHECK(holds(error_of(dir / "a.yaml"), "b.yaml:2: include: expected no cycle of includes"));
  write(dir / "self.yaml", "include: self.yaml\n");
  CHECK(holds(error_of(dir / "self.yaml"), "self.yaml:1: include: expected no cycle"));
  write(dir / "missing.yaml", "include: none.yaml\n");
  CHECK(holds(error_of(dir / "missing.yaml"), "missing.yaml:1: include: expected a readable file"));
  write(dir / "dir.yaml", "include: sub\n");
  CHECK(holds(error_of(dir / "dir.yaml"), "dir.yaml:1: include: expected a readable file"));
  write(dir / "list.yaml", "include: [a.yaml]\n");
  CHECK(holds(error_of(dir / "list.yaml"), "list.yaml:1: include: expected one file name, got a list"));
  for (int i = 0; i < 20; ++i) {
    write(dir / ("c" + std::to_string(i) + ".yaml"), "include: c" + std::to_string(i + 1) + ".yaml\n");
  }
  CHECK(holds(error_of(dir / "c0.yaml"), "at most 16 nested includes"));
  CHECK(holds(error_of(dir / "nothing.yaml"), "nothing.yaml: expected a readable recipe file"));
  CHECK(holds(error_of(dir.path()), "expected a recipe file, got a folder"));
  write(dir / "large.yaml", "a: " + std::string(2'000'000, 'x'));
  CHECK(holds(error_of(dir / "large.yaml"), "at most 1 MB"));
}

TEST_CASE("file paths: relative to the recipe that names them, for overrides to the working directory") {
  const std::string yaml = "model: {path: ../m}\ndata: {train_files: [a, /b], val_files: [./v/../c]}";
  const train::Recipe recipe = read(yaml);
  CHECK(recipe.model.path == "/m");
  CHECK(recipe.data.train_files == std::vector<std::string>{"/d/a", "/b"});
  CHECK(recipe.data.val_files == std::vector<std::string>{"/d/c"});
  CHECK(read(yaml, {"model.path=m"}).model.path == (std::filesystem::current_path() / "m").string());
  CHECK(read("trainer: {default_local_dir: x, resume_mode: z}").trainer.default_local_dir == "x");
  CHECK(read("trainer: {default_local_dir: x, resume_mode: z}").trainer.resume_from.path == "z");
}

TEST_CASE("rules between keys: values at the bounds are accepted") {
  CHECK(read("rollout: {kv_pages: 8}").rollout.kv_pages == 8);
  CHECK(read("reward: {overlong_buffer: {enable: true, len: 64}}").reward.overlong_buffer.len == 64);
  CHECK(read("actor: {max_tokens_per_micro_batch: 128}").actor.max_tokens_per_micro_batch == 128);
  CHECK(read("data: {val_files: [a], val_generator: {task: countdown, size: 3}}").data.val_files.size() == 1);
}

TEST_CASE("sizes: an update defaults to the step's prompts, a micro-batch to the longest sequence") {
  CHECK(read("data: {train_batch_size: 48}").actor.mini_batch_size == 48);
  CHECK(train::prompts_per_update(train::keys().defaults()) == 64);
  CHECK(read("data: {train_batch_size: 48}\nactor: {mini_batch_size: 16}").actor.mini_batch_size == 16);
  const train::Recipe reset =
      read("data: {train_batch_size: 48}\nactor: {mini_batch_size: 16}", {"actor.mini_batch_size=null"});
  CHECK(reset.actor.mini_batch_size == 48);
  const auto tokens = [](const std::string& yaml) { return read(yaml).actor.max_tokens_per_micro_batch; };
  CHECK(tokens("data: {max_response_length: 1024}") == 4096);
  CHECK(tokens("data: {max_response_length: 16384}") == 16384 + 64);
  CHECK(tokens("{data: {max_response_length: 16384}, trainer: {device: cuda}}").is_auto);
  CHECK(tokens("sft: {max_length: 9000, train_files: [a.jsonl]}") == 9000);
  CHECK(read("{data: {max_response_length: 16384}, sft: {train_files: [a.jsonl]}}").sft.max_length == 16384 + 64);
}

TEST_CASE("runs: require a model and training data") {
  const auto lines = faults("optim: {lr: 1}", {}, true);
  REQUIRE(lines.size() == 2);
  CHECK(holds(lines[0], "r.yaml: model.path: expected a model, got no model"));
  CHECK(holds(lines[1], "r.yaml: data.train_files: expected training data, got no training data"));
  CHECK(read("{model: {path: a}, data: {train_files: [b]}}", {}, true).model.path == "/d/a");
  CHECK(read("{model: {init: {config: a}}, data: {train_generator: {task: countdown, size: 1}}}", {}, true)
            .data.train_generator.size == 1);
}

TEST_CASE("data.train_generator.task: null switches an included generator off") {
  const std::string yaml = "data: {train_generator: {task: countdown, size: 100, seed: 3}}";
  const train::Recipe recipe = read(yaml, {"data.train_generator.task=null", "data.train_files=[a.jsonl]"});
  CHECK(recipe.data.train_generator.task.empty());
  CHECK(recipe.data.train_files.size() == 1);
}

TEST_CASE("null defaults: filled in from the rest of the recipe") {
  const std::string yaml =
      "trainer: {seed: 9}\nmodel: {init: {config: c}}\nsft: {demonstrations: {task: countdown}}\n"
      "data: {train_generator: {task: countdown, size: 2}, val_generator: {task: countdown, size: 2}}\n";
  const train::Recipe recipe = read(yaml);
  CHECK(recipe.model.init_seed == 9);
  CHECK(recipe.data.seed == 9);
  CHECK(recipe.data.train_generator.seed == 9);
  CHECK(recipe.sft.demonstrations.seed == 9);
  CHECK(recipe.data.val_generator.seed == train::kHeldOutSeed);
  CHECK(recipe.algorithm.clip_ratio_low == 0.2);
  CHECK(recipe.algorithm.clip_ratio_high == 0.2);
  CHECK(recipe.rollout_correction.threshold == 2.0);
  CHECK(recipe.trainer.default_local_dir == "runs/r-seed9");
  CHECK(read("rollout_correction: {method: none}").rollout_correction.threshold == std::nullopt);
  CHECK(read("model: {path: a}").model.init_seed == std::nullopt);
}

TEST_CASE("trainer.resume_mode: auto, never or a path") {
  CHECK(read("trainer: {resume_mode: never}").trainer.resume_from.mode == train::ResumeMode::never);
  const train::Recipe recipe = read("trainer: {resume_mode: runs/x/checkpoints/step_3}");
  CHECK(recipe.trainer.resume_from.mode == train::ResumeMode::path);
  CHECK(recipe.trainer.resume_from.path == "runs/x/checkpoints/step_3");
  CHECK(read("trainer: {resume_mode: x}", {"trainer.resume_mode=auto"}).trainer.resume_from.path.empty());
  CHECK(read("trainer: {resume_mode: \"disable\"}").trainer.resume_from.path == "disable");
}

TEST_CASE("include: accepts recipes:NAME") {
  const TempDir dir;
  std::ofstream(dir / "own.yaml") << "include: recipes:countdown_quickstart\noptim: {lr: 0.25}\n";
  const train::LoadedRecipe own = train::load_recipe(train::keys(), dir / "own.yaml", {}, false);
  const train::LoadedRecipe shipped =
      train::load_recipe(train::keys(), QRL_SOURCE_DIR "/recipes/countdown_quickstart.yaml", {}, false);
  CHECK(own.recipe.optim.lr == 0.25);
  CHECK(own.recipe.data.train_batch_size == shipped.recipe.data.train_batch_size);
  CHECK(own.recipe.sft.steps == shipped.recipe.sft.steps);
  std::ofstream(dir / "wrong.yaml") << "include: recipes:nothing\n";
  CHECK_THROWS_AS(train::load_recipe(train::keys(), dir / "wrong.yaml", {}, false), base::Error);
}
