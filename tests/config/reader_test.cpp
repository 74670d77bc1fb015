// Tests values, keys, includes, overrides and rules of recipes.
#include "config/reader.h"

#include <fstream>
#include <string>

#include "support.h"
#include "train/plan/catalog.h"

using namespace qrl;
using namespace qrl::test;

namespace {

void write(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; }

}  // namespace

TEST_CASE("numbers: must be decimal, finite and in range, or are refused with the reason") {
  struct Case {
    std::string yaml, expected;
  };
  const Case cases[] = {
      {"trainer: {seed: 010}",
       "r.yaml:1: trainer.seed: expected integer from 0 to 2^64-1, got \"010\"; a leading zero"},
      {"trainer: {seed: -1}", "below 0"},
      {"trainer: {seed: 18446744073709551616}", "does not fit in 64 bits"},
      {"trainer: {seed: 0x10}", "write it in decimal"},
      {"trainer: {seed: 0o17}", "write it in decimal"},
      {"trainer: {seed: 0b11}", "write it in decimal"},
      {"trainer: {seed: \"7\"}", "the text \"7\"; remove the quotes"},
      {"trainer: {total_training_steps: 12:30:45}", "base 60"},
      {"trainer: {total_training_steps: 1_000}", "without underscores"},
      {"trainer: {total_training_steps: 1e3}", "integer without a decimal point or exponent"},
      {"trainer: {total_training_steps: 100.0}", "integer without a decimal point or exponent"},
      {"trainer: {total_training_steps: 99999999999999999999}", "does not fit in 64 bits"},
      {"trainer: {total_training_steps: -99999999999999999999}", "does not fit in 64 bits"},
      {"trainer: {total_training_steps: 1000000001}", "at most 1000000000"},
      {"trainer: {total_training_steps: -1}", "integer ≥ 0, got -1"},
      {"trainer: {total_training_steps: [1]}", "got a list"},
      {"trainer: {total_training_steps: {a: 1}}", "got a section"},
      {"trainer: {total_training_steps: null}", "got null; leave the key out for its default, 100"},
      {"trainer: {total_training_steps: true}", "got \"true\""},
      {"trainer: {total_training_steps: ten}", "got \"ten\""},
      {"trainer: {total_training_steps: \"\"}", "got the text \"\""},
      {"trainer: {threads: 0}", "auto | integer from 1"},
      {"optim: {lr: .nan}", "write a finite number"},
      {"optim: {lr: NaN}", "write a finite number"},
      {"optim: {lr: .inf}", "write a finite number"},
      {"optim: {lr: -.INF}", "write a finite number"},
      {"optim: {lr: 1e309}", "too large or too small"},
      {"optim: {lr: 1e-400}", "too large or too small"},
      {"optim: {lr: 0}", "float > 0, got 0"},
      {"optim: {lr: -1e-6}", "float > 0, got -1e-6"},
      {"optim: {lr: 1,5}", ""},
      {"optim: {lr: 1e}", "got \"1e\""},
      {"optim: {lr: 0x1p3}", "got \"0x1p3\""},
      {"optim: {lr: 1_0.5}", "without underscores"},
      {"optim: {lr: 01.5}", "leading zero"},
      {"optim: {lr: 190:20:30.15}", "base 60"},
      {"optim: {lr: \"1e-6\"}", "remove the quotes"},
      {"optim: {lr: " + std::string(5000, '1') + "}", "float > 0"},
      {"optim: {betas: [0.9]}", "got a list of 1"},
      {"optim: {betas: [0.9, 1.0]}", "got 1.0 in the list"},
      {"optim: {betas: 0.9}", "write a list"},
      {"rollout: {top_p: 0}", "float in (0, 1], got 0"},
      {"rollout: {top_k: 0}", "-1 | integer from 1 to 256, got 0"},
      {"rollout: {top_k: -2}", "-1 | integer from 1 to 256, got -2"},
      {"rollout: {top_k: 257}", "-1 | integer from 1 to 256, got 257"},
      {"eval: {top_k: 0}", "-1 | integer ≥ 1, got 0"},
      {"rollout: {temperature: 0}", "float > 0"},
      {"eval: {temperature: -0.1}", "float ≥ 0"},
      {"algorithm: {clip_ratio_low: 1}", "float in (0, 1)"},
  };
  for (const Case& one : cases) {
    INFO(one.yaml.substr(0, 80));
    const auto lines = faults(one.yaml);
    REQUIRE(!lines.empty());
    INFO(lines.front());
    CHECK(holds(lines.front(), one.expected));
  }
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
  CHECK(holds(fault("data: {shuffle: \"true\"}"), "remove the quotes"));
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
  CHECK(holds(fault("data: {train_files: [null]}"), "got null in the list"));
  CHECK(holds(fault("data: {train_files: [\"\"]}"), "an empty text"));
  CHECK(holds(fault("data: {train_files: a.jsonl}"), "write a list"));
  CHECK(holds(fault("model: {path: [a]}"), "expected path | OWNER/NAME[@REVISION], got a list"));
  CHECK(holds(fault("data: {prompt_template: hello}"), "put {prompt} where it belongs"));
}

TEST_CASE("null: allowed only for keys that are unset by default") {
  CHECK(read("model: {path: a}", {"model.path=null"}).model.path.empty());
  CHECK(read("data: {seed: null}\ntrainer: {seed: 5}").data.seed == 5);
  CHECK(read("rollout: {kv_pages: 900}", {"rollout.kv_pages=null"}).rollout.kv_pages == std::nullopt);
  CHECK(holds(fault("rollout:\n  n:\n\n\n  top_k: 1\n"), "r.yaml:2: rollout.n: "));
  CHECK(holds(fault("rollout: {n: ~}"), "got null; leave the key out for its default, 8"));
}

TEST_CASE("choices: a wrong word gets the nearest suggestion, also for capitals and synonyms") {
  CHECK(holds(fault("quant: {rollout: {weights: int9}}"),
              "expected fp32 | bf16 | int8 | fp8_e4m3 | int4, got \"int9\"; did you mean int8?"));
  CHECK(holds(fault("quant: {rollout: {weights: bfloat16}}"), "here it is bf16"));
  CHECK(holds(fault("model: {dtype: fp32}"), "here it is float32"));
  CHECK(holds(fault("optim: {lr_scheduler: Cosine}"), "did you mean cosine?"));
  CHECK(holds(fault("optim: {name: sgd}"), "expected adamw | muon, got \"sgd\""));
  CHECK(holds(fault("algorithm: {name: ppo}"),
              "expected grpo | dr_grpo | dapo | gspo | tbpo | cispo | sapo | dppo_tv | dppo_kl, got \"ppo\""));
  CHECK(read("quant: {rollout: {weights: \"bf16\"}}").quant.weights == config::WeightFormat::bf16);
}

TEST_CASE("weight formats: incompatible granularity or activations are refused") {
  CHECK(holds(fault("quant: {rollout: {weights: int8, granularity: tensor}}"),
              "quant.rollout.weights fp8_e4m3 with quant.rollout.granularity, got int8"));
  CHECK(holds(fault("quant: {rollout: {weights: int8, activations: fp8_e4m3}}"), "int4 allows bf16, int8 or fp8_e4m3"));
  CHECK(holds(fault("quant: {rollout: {weights: fp8_e4m3, activations: bf16}}"), "every other format has its own"));
  CHECK(read("quant: {rollout: {weights: int4, activations: int8}}").quant.activations ==
        config::ActivationFormat::int8);
}

TEST_CASE("unknown keys: the error names the nearest key or another trainer's counterpart") {
  struct Case {
    std::string yaml, expected;
  };
  const Case cases[] = {
      {"optim: {lrr: 1}", "r.yaml:1: optim.lrr: expected a recipe key, got an unknown key; did you mean optim.lr?"},
      {"optm: {weight_decay: 1}", "did you mean optim.weight_decay?"},
      {"rolout: {temperature: 1}", "did you mean rollout.temperature?"},
      {"\nlr: 1", "r.yaml:2: lr: expected a recipe key, got an unknown key; did you mean sft.lr or optim.lr?"},
      {"actor: {kl_loss_coef: 1}", "did you mean algorithm.kl_loss_coef?"},
      {"sft: {demonstrations: {size: 3}}", "no counterpart here: sft.steps"},
      {"quant: {learner: {forwards: low_bit}}", "did you mean quant.learner.forward?"},
      {"optim.lr: 1", "nest it"},
      {"zzzzzzzzzzzz: 1", "--help-all lists all keys"},
      {"foo: {}", "foo: expected a recipe key"},
      {R"("a\nb": 1)", R"("a\nb": expected a recipe key)"},
      {"actor_rollout_ref: {rollout: {n: 8}}",
       "actor_rollout_ref.rollout.n: expected a recipe key, got an unknown key; here it is rollout.n"},
      {"actor_rollout_ref: {actor: {ppo_mini_batch_size: 8}}", "here it is actor.mini_batch_size"},
      {"actor_rollout_ref: {actor: {ppo_micro_batch_size_per_gpu: 8}}", "actor.max_tokens_per_micro_batch"},
      {"actor_rollout_ref: {actor: {optim: {lr: 1}}}", "here it is optim.lr"},
      {"actor_rollout_ref: {model: {path: x}}", "here it is model.path"},
      {"tensor_model_parallel_size: 2", "no counterpart here"},
      {"num_generations: 8", "here it is rollout.n"},
      {"n_samples_per_prompt: 8", "here it is rollout.n"},
      {"--n-samples-per-prompt: 8", "here it is rollout.n"},
      {"--actor_learning_rate: 1", "here it is optim.lr"},
      {"beta: 0", "algorithm.kl_loss_coef"},
      {"kl_coef: 0", "algorithm.kl_loss_coef"},
      {"epsilon: 0", "algorithm.clip_ratio_low"},
      {"cliprange: 0", "algorithm.clip_ratio_low"},
      {"epsilon_high: 0", "here it is algorithm.clip_ratio_high"},
      {"max_completion_length: 1", "data.max_response_length"},
      {"generate_max_len: 1", "data.max_response_length"},
      {"max_prompt_length: 1", "data.max_prompt_length"},
      {"prompt_max_len: 1", "data.max_prompt_length"},
      {"tis_imp_ratio_cap: 2", "rollout_correction.threshold"},
      {"save_steps: 2", "trainer.save_freq"},
      {"learning_rate: 2", "optim.lr"},
      {"per_device_train_batch_size: 2", "actor.mini_batch_size"},
      {"gradient_accumulation_steps: 2", "actor.mini_batch_size"},
      {"num_train_epochs: 2", "trainer.total_epochs"},
      {"max_steps: 2", "trainer.total_training_steps"},
      {"output_dir: x", "trainer.default_local_dir"},
      {"warmup_steps: 2", "optim.lr_warmup_steps"},
      {"lr_scheduler_type: cosine", "optim.lr_scheduler"},
      {"max_grad_norm: 2", "optim.grad_clip"},
      {"adam_beta1: 0.9", "optim.betas"},
      {"bf16: true", "model.dtype"},
      {"top_k: 1", "rollout.top_k"},
      {"temperature: 1", "rollout.temperature"},
  };
  for (const Case& one : cases) {
    const std::string line = fault(one.yaml);
    INFO(line);
    CHECK(holds(line, one.expected));
  }
}

TEST_CASE("errors: all faults are reported at once, each with its line") {
  CHECK(holds(fault("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"),
              "r.yaml: expected a recipe, got a Git LFS pointer; fetch the file itself"));
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
  const config::Recipe recipe = config::load_recipe(train::keys(), dir / "top.yaml", {}, false).recipe;
  CHECK(recipe.optim.lr == 0.125);
  CHECK(recipe.optim.eps == 0.25);
  CHECK(recipe.model.path == (dir / "sub" / "m").string());
  CHECK(recipe.trainer.default_local_dir == "runs/top-seed0");

  const auto error_of = [](const std::filesystem::path& file) -> std::string {
    try {
      config::load_recipe(train::keys(), file, {}, false);
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
  const config::Recipe recipe = read(yaml);
  CHECK(recipe.model.path == "/m");
  CHECK(recipe.data.train_files == std::vector<std::string>{"/d/a", "/b"});
  CHECK(recipe.data.val_files == std::vector<std::string>{"/d/c"});
  CHECK(read(yaml, {"model.path=m"}).model.path == (std::filesystem::current_path() / "m").string());
  CHECK(read("trainer: {default_local_dir: x, resume_mode: z}").trainer.default_local_dir == "x");
  CHECK(read("trainer: {default_local_dir: x, resume_mode: z}").trainer.resume_from.path == "z");
}

TEST_CASE("rules between keys: the error names the line where a key was set") {
  struct Case {
    std::string yaml, expected;
  };
  const Case cases[] = {
      {"model: {path: a, init: {config: b}}",
       "r.yaml:1: model.path: expected no model.init.config with model.path, got \"/d/b\""},
      {"model: {init: {seed: 1}}", "r.yaml:1: model.init.seed: expected model.init.config"},
      {"data: {train_batch_size: 48}\nactor: {mini_batch_size: 64}",
       "r.yaml:2: actor.mini_batch_size: expected actor.mini_batch_size to divide"},
      {"data: {train_batch_size: 96}\nactor: {mini_batch_size: 64}", "got 64 and 96"},
      {"actor: {mini_batch_size: 128}", "got 128 and 64"},
      {"data: {max_response_length: 16384}\nactor: {max_tokens_per_micro_batch: 4096}", "at least 16448 tokens"},
      {"actor: {max_tokens_per_micro_batch: 127}",
       "at least 128 tokens (max_prompt_length + max_response_length), got 127 tokens"},
      {"data: {prompt_key: q}", "data.train_files or data.val_files set with data.prompt_key, got none"},
      {"data: {filter: [level > 3]}", "data.train_files with data.filter, got none"},
      {"data: {filter: [level > 3], val_files: [a.jsonl]}", "data.train_files with data.filter, got none"},
      {"data: {val_filter: [level > 3], train_files: [a.jsonl]}", "data.val_files with data.val_filter, got none"},
      {"rollout: {gpu_memory_utilization: 0.5}", "rollout.device cuda with rollout.gpu_memory_utilization"},
      {"rollout: {device: cuda, gpu_memory_utilization: 0.5, kv_pages: 900}", "set only one"},
      {"rollout: {enforce_eager: true}", "rollout.device cuda with rollout.enforce_eager"},
      {"rollout: {kv_pages: 7}", "rollout.kv_pages of at least 8 pages (128 tokens in pages of 16), got 7 pages"},
      {"rollout: {n: 1}", "rollout.n: expected integer from 2 to 65536, got 1"},
      {"rollout_correction: {method: none, threshold: 2}",
       "no rollout_correction.threshold with rollout_correction.method none, got 2.0"},
      {"sft: {steps: 3}",
       "r.yaml:1: sft.steps: expected sft.demonstrations.task or sft.train_files with sft.steps above 0"},
      {"data: {train_generator: {task: countdown}}",
       "data.train_generator.size above 0 with data.train_generator.task, got 0"},
      {"data: {val_generator: {size: 3}}", "expected data.val_generator.task with data.val_generator.size, got none"},
      {"data: {val_generator: {task: countdown, size: 3, min_numbers: 5, max_numbers: 4}}",
       "max_numbers at least data.val_generator.min_numbers, got data.val_generator.min_numbers 5, "},
      {"data: {val_generator: {task: countdown, size: 3, max_numbers: 7}}", "integer from 2 to 6"},
      {"data: {val_generator: {task: countdown, size: 3, min_numbers: 1}}", "integer from 2 to 6"},
      {"data: {val_generator: {task: chess, size: 3}}", "got \"chess\""},
      {"data: {val_generator: {task: sudoku, size: 3, max_number: 5}}",
       "data.val_generator.task countdown or arithmetic or sums with data.val_generator.max_number, got sudoku"},
      {"data: {val_generator: {task: arithmetic, size: 3, grid_size: 9}}",
       "data.val_generator.task sudoku with data.val_generator.grid_size, got arithmetic"},
      {"data: {val_generator: {task: sudoku, size: 3, min_empty: 9}}", "data.val_generator.max_empty 8; set both"},
      {"reward: {verifier: math, numbers: subset}", "reward.verifier countdown with reward.numbers, got math"},
      {"reward: {profile: boxed}", "reward.verifier math with reward.profile, got countdown"},
      {"reward: {answer_form: value}", "reward.verifier math with reward.answer_form, got countdown"},
      {"data: {train_files: [a], train_generator: {task: countdown, size: 3}}",
       "no data.train_generator.task with data.train_files, got countdown"},
      {"reward: {partial: 0.1}", "reward.verifier sudoku with reward.partial, got countdown; it has no effect"},
      {"reward: {overlong_buffer: {enable: true}}",
       "reward.overlong_buffer.len above 0 with reward.overlong_buffer.enable, got 0"},
      {"reward: {overlong_buffer: {enable: true, len: 65}}",
       "data.max_response_length at least reward.overlong_buffer.len, got reward.overlong_buffer.len 65, "
       "data.max_response_length 64"},
      {"sft: {from: a}", "sft.steps or sft.epochs above 0 with sft.from, got 0"},
      {"data: {val_generator: {seed: 3}}", "data.val_generator.task with data.val_generator.seed, got none"},
      {"reward: {wrong: 1}", "reward.correct above reward.wrong"},
      {"reward: {format: 1}", "reward.correct above reward.wrong"},
  };
  for (const Case& one : cases) {
    const auto lines = faults(one.yaml);
    INFO(one.yaml);
    REQUIRE(!lines.empty());
    INFO(lines.front());
    CHECK(holds(lines.front(), one.expected));
  }
  CHECK(read("rollout: {kv_pages: 8}").rollout.kv_pages == 8);
  CHECK(read("reward: {overlong_buffer: {enable: true, len: 64}}").reward.overlong_buffer.len == 64);
  CHECK(read("actor: {max_tokens_per_micro_batch: 128}").actor.max_tokens_per_micro_batch == 128);
  CHECK(read("data: {val_files: [a], val_generator: {task: countdown, size: 3}}").data.val_files.size() == 1);
}

TEST_CASE("sizes: an update defaults to the step's prompts, a micro-batch to the longest sequence") {
  CHECK(read("data: {train_batch_size: 48}").actor.mini_batch_size == 48);
  CHECK(config::prompts_per_update(train::keys().defaults()) == 64);
  CHECK(read("data: {train_batch_size: 48}\nactor: {mini_batch_size: 16}").actor.mini_batch_size == 16);
  const config::Recipe reset =
      read("data: {train_batch_size: 48}\nactor: {mini_batch_size: 16}", {"actor.mini_batch_size=null"});
  CHECK(reset.actor.mini_batch_size == 48);
  const auto tokens = [](const std::string& yaml) { return read(yaml).actor.max_tokens_per_micro_batch; };
  CHECK(tokens("data: {max_response_length: 1024}") == 4096);
  CHECK(tokens("data: {max_response_length: 16384}") == 16384 + 64);
  CHECK(tokens("{data: {max_response_length: 16384}, trainer: {device: cuda}}").is_auto);
  CHECK(tokens("sft: {max_length: 9000, train_files: [a.jsonl]}") == 9000);
  CHECK(read("{data: {max_response_length: 16384}, sft: {train_files: [a.jsonl]}}").sft.max_length == 16384 + 64);
}

TEST_CASE("rules between keys: silent about a key whose value was refused") {
  CHECK(holds(fault("data: {train_batch_size: 48}\nactor: {mini_batch_size: x}"), "r.yaml:2: actor.mini_batch_size: "));
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
  const config::Recipe recipe = read(yaml, {"data.train_generator.task=null", "data.train_files=[a.jsonl]"});
  CHECK(recipe.data.train_generator.task.empty());
  CHECK(recipe.data.train_files.size() == 1);
}

TEST_CASE("null defaults: filled in from the rest of the recipe") {
  const std::string yaml =
      "trainer: {seed: 9}\nmodel: {init: {config: c}}\nsft: {demonstrations: {task: countdown}}\n"
      "data: {train_generator: {task: countdown, size: 2}, val_generator: {task: countdown, size: 2}}\n";
  const config::Recipe recipe = read(yaml);
  CHECK(recipe.model.init_seed == 9);
  CHECK(recipe.data.seed == 9);
  CHECK(recipe.data.train_generator.seed == 9);
  CHECK(recipe.sft.demonstrations.seed == 9);
  CHECK(recipe.data.val_generator.seed == config::kHeldOutSeed);
  CHECK(recipe.algorithm.clip_ratio_low == 0.2);
  CHECK(recipe.algorithm.clip_ratio_high == 0.2);
  CHECK(recipe.rollout_correction.threshold == 2.0);
  CHECK(recipe.trainer.default_local_dir == "runs/r-seed9");
  CHECK(read("rollout_correction: {method: none}").rollout_correction.threshold == std::nullopt);
  CHECK(read("model: {path: a}").model.init_seed == std::nullopt);
}

TEST_CASE("trainer.resume_mode: auto, never or a path") {
  CHECK(read("trainer: {resume_mode: never}").trainer.resume_from.mode == config::ResumeMode::never);
  const config::Recipe recipe = read("trainer: {resume_mode: runs/x/checkpoints/step_3}");
  CHECK(recipe.trainer.resume_from.mode == config::ResumeMode::path);
  CHECK(recipe.trainer.resume_from.path == "runs/x/checkpoints/step_3");
  CHECK(read("trainer: {resume_mode: x}", {"trainer.resume_mode=auto"}).trainer.resume_from.path.empty());
  CHECK(holds(fault("trainer: {resume_mode: false}"), "got \"false\"; use never"));
  CHECK(holds(fault("trainer: {resume_mode: disable}"), "got \"disable\"; here it is never"));
  CHECK(read("trainer: {resume_mode: \"disable\"}").trainer.resume_from.path == "disable");
}

TEST_CASE("include: accepts recipes:NAME") {
  const TempDir dir;
  std::ofstream(dir / "own.yaml") << "include: recipes:countdown_quickstart\noptim: {lr: 0.25}\n";
  const config::LoadedRecipe own = config::load_recipe(train::keys(), dir / "own.yaml", {}, false);
  const config::LoadedRecipe shipped =
      config::load_recipe(train::keys(), QRL_SOURCE_DIR "/recipes/countdown_quickstart.yaml", {}, false);
  CHECK(own.recipe.optim.lr == 0.25);
  CHECK(own.recipe.data.train_batch_size == shipped.recipe.data.train_batch_size);
  CHECK(own.recipe.sft.steps == shipped.recipe.sft.steps);
  std::ofstream(dir / "wrong.yaml") << "include: recipes:nothing\n";
  CHECK_THROWS_AS(config::load_recipe(train::keys(), dir / "wrong.yaml", {}, false), base::Error);
}
