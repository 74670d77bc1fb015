// Tests what a run prints: settings with their origins, warnings, scores during training, its log, its last lines.
#include <fstream>

#include "support/catch.h"
#include "support/refusal.h"
#include "train/metrics/health.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

using test::says;

const std::string kRecipes = QRL_SOURCE_DIR "/recipes/";

/// Returns the row of a step in which half of the responses are right and all is normal.
train::Metrics sound_row() {
  return {{"reward/correct_fraction", 0.5},    {"reward/no_answer_fraction", 0.1}, {"data/flat_group_fraction", 0.25},
          {"response_length/clip_ratio", 0.0}, {"mismatch/k3_kl", 1e-3},           {"actor/grad_norm", 0.5}};
}

train::Metrics with(train::Metrics row, const train::Metrics& changes) {
  for (const auto& [name, value] : changes) row[name] = value;
  return row;
}

const train::Metrics kFlat = {{"data/flat_group_fraction", 1},
                              {"reward/correct_fraction", 0},
                              {"mismatch/k3_kl", std::nan("")},
                              {"actor/grad_norm", 0}};

}  // namespace

TEST_CASE("mode: run and dry run list overridden values with their places") {
  const test::Outcome dry =
      test::run_command(test::kProgram + kRecipes + "countdown_quickstart.yaml --set mode=bf16 --dry-run");
  CHECK(dry.exit_code == 0);
  CHECK(says(dry.output, "mode        bf16; the recipe's own keys override 2 of its values"));
  CHECK(says(dry.output, "quant.rollout.weights is int8 ("));
  CHECK(says(dry.output, "countdown_quickstart.yaml:5), the mode has bf16"));
  CHECK(says(dry.output, "rollout_correction.method is tis ("));

  const test::Outcome own = test::run_command(test::kProgram + kRecipes + "countdown/bf16.yaml --dry-run");
  CHECK(says(own.output, "mode        bf16\n"));
  CHECK(says(own.output, "forward float32, backward float32"));  // model.dtype of the recipe, not the word bf16
  CHECK(says(own.output, "rollout_correction.method") == false);

  const test::TempDir dir;
  const test::Outcome run =
      test::run_command(test::tiny_command(dir / "run", "--set trainer.total_training_steps=0 --set sft.steps=0"));
  CHECK(run.exit_code == 0);
  for (const char* line :
       {"mode        none\n", "loss        grpo (default), clip low 0.2 (default)", "correction  tis (default)",
        "sampler     int8 (default) weights", "optimizer   adamw (default), lr 0.001", "verifier    countdown",
        "4 samples per prompt, temperature 1.0 (default), up to 24 tokens"})
    CHECK(says(run.output, line));
}

TEST_CASE("settings: a run shows each active mask, estimator and rejection, and its loss's own keys") {
  const test::Outcome shown = test::run_command(
      test::kProgram + kRecipes +
      "countdown_quickstart.yaml --dry-run --allow-absent --set algorithm.name=dppo_tv --set "
      "algorithm.dppo_tv.delta=0.1 --set rollout_correction.method=none "
      "--set algorithm.adv_estimator=rloo --set algorithm.positive_only=true --set algorithm.teacher.path=/models/one "
      "--set algorithm.reward_coef=0 --set algorithm.top_entropy_quantile=0.2 --set rollout_correction.rs=token "
      "--set rollout_correction.rs_threshold=2 --set rollout_correction.token_veto_threshold=0.01");
  CHECK(shown.exit_code == 0);
  for (const char* line :
       {"loss        dppo_tv, delta 0.1, ratio_cap 20.0 (default), aggregation seq-mean-token-sum-norm (default), "
        "top_entropy_quantile "
        "0.2\n",
        "advantages  adv_estimator rloo, positive_only true, teacher.path \"/models/one\", reward_coef 0.0\n",
        ", rs token, rs_threshold 2.0, rs_threshold_low 0.5 (default), token_veto_threshold 0.01\n"})
    CHECK(says(shown.output, line));
}

TEST_CASE("mode: an error about a bound that it set names it") {
  const test::Outcome longer = test::run_command(test::kProgram + QRL_SOURCE_DIR "/tests/train/tiny.yaml --dry-run " +
                                                 "--set mode=fp8rl --set data.max_response_length=20480 "
                                                 "--set data.max_prompt_length=2048 "
                                                 "--set actor.max_tokens_per_micro_batch=22528");
  CHECK(longer.exit_code == 2);
  CHECK_FALSE(says(longer.output, "(mode fp8rl)"));  // set by the user
  const test::TempDir dir;
  test::write_recipe(dir / "own.yaml",
                     {{"  max_prompt_length: 24\n  max_response_length: 24\n", ""},
                      {"actor: {mini_batch_size: 2, max_tokens_per_micro_batch: 256}", "actor: {mini_batch_size: 2}"}});
  const test::Outcome of_mode =
      test::run_command(test::kProgram + (dir / "own.yaml").string() + " --set mode=fp8rl --dry-run");
  CHECK(of_mode.exit_code == 2);
  CHECK(says(of_mode.output, "20480 (mode fp8rl) = 22528"));
}

TEST_CASE("large gap: reported with remedies, bitwise mode first, without those already active") {
  const auto advice = [](const train::Recipe& recipe) {
    train::Health health(recipe);
    return health.observe(1, with(sound_row(), {{"mismatch/k3_kl", 0.5}})).at(0);
  };
  train::Recipe recipe;
  CHECK(says(advice(recipe),
             "set rollout.bitwise with quant.learner.forward low_bit, which has a gap of 0, or set "
             "quant.rollout.rotation: hadamard, or use a quant.rollout.weights"));
  recipe.quant.rotation = train::RotationKind::hadamard;
  CHECK_FALSE(advice(recipe).find("quant.rollout.rotation") != std::string::npos);
  recipe.rollout.bitwise = true;
  CHECK_FALSE(advice(recipe).find("rollout.bitwise") != std::string::npos);
  recipe.quant.weights = train::WeightFormat::bf16;
  CHECK_FALSE(advice(recipe).find("more bits") != std::string::npos);
  CHECK(says(advice(recipe), "lower optim.lr"));
}

TEST_CASE("symptom: reported with number and cause, at most every ten steps, and summed up") {
  const train::Recipe recipe;
  train::Health health(recipe);
  CHECK(health.observe(1, sound_row()).empty());
  CHECK(health.summary().empty());
  const auto flat = health.observe(2, with(sound_row(), with(kFlat, {{"reward/correct_fraction", 0.5}})));
  REQUIRE(flat.size() == 1);
  CHECK(says(flat[0], "step 2: all groups are flat"));
  for (std::int64_t step = 3; step < 12; ++step)
    CHECK(health.observe(step, with(sound_row(), with(kFlat, {{"reward/correct_fraction", 0.5}}))).empty());
  CHECK(health.observe(12, with(sound_row(), with(kFlat, {{"reward/correct_fraction", 0.5}}))).size() == 1);
  CHECK(says(health.summary(), "all groups flat in 11 of 12 steps, first in step 2"));

  const auto one = [&](const train::Metrics& changes) {
    train::Health fresh(recipe);
    const auto warnings = fresh.observe(1, with(sound_row(), changes));
    return warnings.empty() ? std::string() : warnings[0];
  };
  CHECK(says(one(with(kFlat, {{"reward/no_answer_fraction", 1}})),
             "the verifier finds no answer in 100 % of the responses"));
  CHECK(says(one(kFlat), "no response is correct: use easier prompts"));
  CHECK(says(one(with(kFlat, {{"reward/correct_fraction", 1}})), "use harder prompts"));
  CHECK(says(one({{"mismatch/dropped_fraction", 0.8}}), "drops 80 % of the tokens"));
  CHECK(says(one({{"mismatch/k3_kl", 0.5}}), "far apart"));
  CHECK(says(one({{"mismatch/k3_kl", std::nan("")}}), "mismatch/k3_kl is not finite"));
  CHECK(one({}).empty());

  train::Health broken(recipe);
  CHECK(broken.observe(1, sound_row()).empty());
  const auto fell = broken.observe(2, with(sound_row(), kFlat));
  REQUIRE(fell.size() == 1);  // this also explains its flat groups
  CHECK(says(fell[0], "no response is correct any more (reward/correct_fraction 0, previously 0.500)"));

  // Rare rewards: one step without any is no drop, many are.
  train::Recipe small = recipe;
  small.data.train_batch_size = 16;
  train::Health rare(small);
  CHECK(rare.observe(1, with(sound_row(), {{"reward/correct_fraction", 0.05}})).empty());
  const train::Metrics none = with(sound_row(), {{"reward/correct_fraction", 0}});
  for (std::int64_t step = 2; step <= 6; ++step) CHECK(rare.observe(step, none).empty());
  CHECK(rare.observe(7, none).size() == 1);  // 0.95^(16 * 6) is below 1 %
  // A policy that broke before it was right: responses no longer end.
  train::Health endless(small);
  const train::Metrics ends = with(kFlat, {{"response_length/clip_ratio", 0.1}}),
                       cut = with(kFlat, {{"response_length/clip_ratio", 1}});
  CHECK(says(endless.observe(1, with(sound_row(), ends)).at(0), "use easier prompts"));
  const auto broke = endless.observe(2, with(sound_row(), cut));
  REQUIRE(broke.size() == 1);
  CHECK(says(broke[0], "most responses are cut now (response_length/clip_ratio 1.00, previously as low as 0.10)"));
  CHECK(says(broke[0], "lower optim.lr"));
}

TEST_CASE("dry run: notes a learning rate too small to move a model of this size") {
  const auto plan = [](const std::string& settings) {
    const test::TempDir dir;
    return test::run_command(test::tiny_command(dir / "run", settings + " --dry-run")).output;
  };
  constexpr const char* kNote =
      "note        optim.lr 1e-06 did not move a model of 135M parameters in 30 steps, 2e-05 did";
  CHECK(says(plan("--set optim.lr=1e-6"), kNote));
  for (const char* settings : {"", "--set optim.lr=2e-5", "--set optim.lr=1e-6 --set lora.rank=4",
                               "--set optim.lr=1e-6 --set optim.name=muon"}) {
    INFO(settings);
    CHECK(plan(settings).find("note  ") == std::string::npos);
  }
}

TEST_CASE("masking bound before any update: reported in the first step, with its remedy") {
  const auto told = [](const train::Recipe& recipe, double share) {
    train::Health health(recipe);
    const auto warnings = health.observe(1, with(sound_row(), {{"mismatch/masked_at_start_fraction", share}}));
    return warnings.empty() ? std::string() : warnings.at(0);
  };
  const train::Recipe dppo =
      train::parse_recipe(train::keys(), "algorithm: {name: dppo_tv}\nrollout_correction: {method: none}", "r.yaml",
                          "/d", {}, false)
          .recipe;
  CHECK(says(told(dppo, 0.031), "step 1: dppo_tv masks 3.1 % of the tokens before any update"));
  CHECK(says(
      told(dppo, 0.031),
      "set quant.learner.forward: low_bit or rollout.bitwise, or with one update per step algorithm.bound_moved_only"));
  CHECK(told(dppo, 0.009).empty());
  train::Recipe ratio;
  ratio.rollout_correction.behaviour_in_ratio = true;
  CHECK(says(told(ratio, 0.05), "rollout_correction.behaviour_in_ratio masks 5.0 % of the tokens"));
}

TEST_CASE("flat groups of a graded reward: reported with their scores, not as wrong responses") {
  const train::Recipe recipe;
  const auto told = [&](const train::Metrics& changes) {
    train::Health health(recipe);
    return health.observe(1, with(sound_row(), with(kFlat, changes))).at(0);
  };
  const train::Metrics graded = {{"reward/outcome_fraction", 0}, {"reward/correct_fraction", 0}};
  const auto all_nine = told(with(graded, {{"critic/score/min", 0.9}, {"critic/score/max", 0.9}}));
  CHECK(says(all_nine, "all responses have the score 0.9: use harder prompts if that is the highest score"));
  CHECK_FALSE(says(all_nine, "correct"));
  CHECK(says(told(with(graded, {{"critic/score/min", -1}, {"critic/score/max", 0.25}})),
             "the scores go from -1 to 0.25, but depend on the prompt alone"));
  // A program that says what is correct, and gives points for the form.
  CHECK(says(told({{"reward/outcome_fraction", 1}, {"critic/score/min", 0.1}, {"critic/score/max", 0.1}}),
             "all responses have the score 0.1"));
  CHECK(says(told({{"reward/outcome_fraction", 1}, {"critic/score/min", 0}, {"critic/score/max", 0}}),
             "no response is correct"));

  train::Health health(recipe);
  CHECK(health.observe(1, with(sound_row(), {{"reward/outcome_fraction", 0}, {"reward/correct_fraction", 1}})).empty());
  CHECK(health.observe(2, with(sound_row(), {{"reward/correct_fraction", 0}})).empty());  // 0.9 is no fall to 0
}

TEST_CASE("all groups flat: a run warns in its first steps and at its end, and its rows keep their names") {
  const test::TempDir dir;
  const test::Outcome run = test::run_command(
      test::tiny_command(dir / "run", "--set sft.steps=0 --set algorithm.entropy_coef=0 --set optim.weight_decay=0"));
  REQUIRE(run.exit_code == 0);
  CHECK(says(run.output, "warning: step 1: all groups are flat"));
  CHECK(says(run.output, "warnings  all groups flat in 4 of 4 steps, first in step 1"));
  CHECK(run.output.find("warnings  all") < run.output.find("held-out "));
  std::ifstream rows(dir / "run/metrics.jsonl");
  std::string line;
  std::getline(rows, line);  // the evaluation before training
  std::getline(rows, line);
  const auto row = nlohmann::json::parse(line);
  for (const char* name : {"actor/entropy", "actor/pg_loss", "mismatch/k3_kl", "mismatch/capped_fraction"}) {
    INFO(name);
    REQUIRE(row.contains(name));
    CHECK(row[name].is_null());
  }
  // The names are those of a step with tokens in the loss.
  const auto learned = test::stable_rows(test::finished_run() / "metrics.jsonl").at(1);
  for (const auto& [name, value] : learned.items()) {
    INFO(name);
    CHECK(row.contains(name));
  }
}

TEST_CASE("reward parts, export score: shown and logged, and the log has times, command and recipe") {
  const test::TempDir dir;
  const test::Outcome run = test::run_command(test::tiny_command(dir / "run"));
  REQUIRE(run.exit_code == 0);
  CHECK(says(run.output, "eval after step 0  countdown mean@2: "));
  CHECK(says(run.output, "eval after step 2  countdown mean@2: "));
  const std::size_t score = run.output.find("exported model (computed in fp32, greedy)  countdown: ");
  REQUIRE(score != std::string::npos);
  const std::string command = " export " + (dir / "run/checkpoints/step_4").string();
  CHECK(says(run.output, "  sampled and scored as int8 weights with bf16 keys and values: "));
  CHECK(says(run.output, command + " --quantized --out DIR"));
  const auto of = [&](const std::string& arguments) { return test::run_command(test::kProgram + arguments).output; };
  const std::string exported = of(command + " --out " + (dir / "model").string());
  CHECK(says(exported, "the run sampled from int8 weights with bf16 keys and values, which scored countdown mean@2 "));
  CHECK(says(exported, "the exported model scored countdown "));
  const std::string eval = "eval " + test::kTiny + " --checkpoint ";
  const std::string checkpoint = (dir / "run/checkpoints/step_4").string();
  CHECK(says(of(eval + checkpoint), checkpoint + "; its run scored countdown mean@2 "));
  CHECK(says(of("generate " + checkpoint + " --prompt 1 --max-tokens 1"), "; its run scored countdown mean@2 "));
  CHECK(says(of(eval + checkpoint + " --set quant.rollout.weights=bf16"),
             "sampled from bf16 weights with bf16 keys and values, of " + checkpoint +
                 "; its run sampled from int8 weights with bf16 keys and values, which scored countdown mean@2 "));
  CHECK(says(of(eval + (dir / "model").string()), "quantizing the folder's weights now may lose"));
  CHECK(run.output.find("->", score) > run.output.find('\n', score));
  const std::string log = test::read_file(dir / "run/log.txt");
  for (const char* part : {"command: ", "tiny.yaml, resolved ", "eval after step 4  countdown", "held-out countdown",
                           "mode        none", "exported model (computed in fp32, greedy)"})
    CHECK(says(log, part));
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    REQUIRE(line.size() > 20);
    CHECK(
        (line[4] == '-' && line[7] == '-' && line[10] == ' ' && line[13] == ':' && line[16] == ':' && line[19] == ' '));
  }

  const test::Outcome again = test::run_command(test::tiny_command(dir / "run"));
  CHECK(says(again.output, "nothing left to do: step 4 is done"));
  CHECK(again.output.substr(again.output.find("run folder")) == run.output.substr(run.output.find("run folder")));
}

TEST_CASE("export score: a greedy fp32 evaluation of the export's rounded weights") {
  const test::TempDir dir;
  const test::Outcome run = test::run_command(test::tiny_command(dir / "run", test::kTelling));
  REQUIRE(run.exit_code == 0);
  const auto written = nlohmann::json::parse(test::read_file(dir / "run/export_score.json"));
  REQUIRE(test::run_command(test::kProgram + "export " + (dir / "run/checkpoints/step_1").string() + " --out " +
                            (dir / "hf").string())
              .exit_code == 0);
  const test::Outcome eval = test::run_command(
      test::kProgram + "eval " QRL_SOURCE_DIR "/tests/train/tiny.yaml --checkpoint " + (dir / "hf").string() +
      " --set quant.rollout.weights=fp32 --set eval.temperature=0 --set eval.n=1 --out " + (dir / "eval").string());
  INFO(eval.output);
  REQUIRE(eval.exit_code == 0);
  const auto measured = nlohmann::json::parse(test::read_file(dir / "eval/results.json"));
  CHECK(written.at("scores").at("countdown") == measured.at("metrics").at("val/countdown/mean@1"));
}

TEST_CASE("terminal characters: names are shown escaped, and commands are printed as a shell takes them") {
  const test::TempDir dir;
  const test::Outcome dry = test::run_command(test::kProgram + QRL_SOURCE_DIR "/tests/train/tiny.yaml --dry-run " +
                                              "--set 'trainer.default_local_dir=\"a\\e[31m\\u202Eb\"'");
  CHECK(dry.exit_code == 0);
  CHECK(dry.output.find('\x1b') == std::string::npos);
  CHECK(says(dry.output, "run folder  a\\x1b[31m\\u202eb"));
  const test::Outcome run = test::run_command(test::kProgram + QRL_SOURCE_DIR "/tests/train/tiny.yaml " +
                                              "--set trainer.total_training_steps=1 --set eval.freq=0 --set " +
                                              "'trainer.default_local_dir=" + (dir / "my runs").string() + "'");
  CHECK(run.exit_code == 0);
  CHECK(says(run.output, " export '" + (dir / "my runs").string() + "/checkpoints/step_1' --out DIR"));
  CHECK(says(test::read_file(dir / "my runs/log.txt"),
             "--set 'trainer.default_local_dir=" + (dir / "my runs").string() + "'"));
}

TEST_CASE("dry run: lists absent inputs after the plan, with exit code 2 unless allowed") {
  const std::string lacking = test::kProgram + QRL_SOURCE_DIR "/tests/train/tiny.yaml --dry-run " +
                              "--set data.train_generator.task=null --set data.train_files=[typo.jsonl]";
  const test::Outcome refused = test::run_command(lacking);
  CHECK(refused.exit_code == 2);
  CHECK(says(refused.output, "memory per device"));
  CHECK(says(refused.output, "typo.jsonl (data.train_files): needed by a run"));
  CHECK(says(refused.output, "--allow-absent"));
  CHECK(test::run_command(lacking + " --allow-absent").exit_code == 0);
  CHECK(test::run_command(test::kProgram + QRL_SOURCE_DIR "/tests/train/tiny.yaml --allow-absent").exit_code == 2);
  const test::Outcome resumed =
      test::run_command(test::kProgram + QRL_SOURCE_DIR "/tests/train/tiny.yaml --dry-run --resume nowhere/step_3");
  CHECK(resumed.exit_code == 2);
  CHECK(says(resumed.output, "absent      nowhere/step_3/state.json (--resume): needed by a run"));
}

TEST_CASE("absent GPU: the error names the key that requires it") {
  if (fs::exists("/dev/nvidiactl")) return test::skip("there is a GPU");
  const std::string tiny =
      test::kProgram + QRL_SOURCE_DIR "/tests/train/tiny.yaml --set trainer.default_local_dir=/tmp/none ";
  for (const std::string key : {"trainer.device", "rollout.device"}) {
    const std::string asked = tiny + "--set " + key + "=cuda ";
    const test::Outcome dry = test::run_command(asked + "--dry-run");
    CHECK(dry.exit_code == 2);
    CHECK(says(dry.output, "absent      a GPU: " + key + ": cuda: expected"));
    CHECK(test::run_command(asked + "--dry-run --allow-absent").exit_code == 0);
  }
}
