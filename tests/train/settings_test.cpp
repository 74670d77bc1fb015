// Settings of a recipe that reach their place: each case goes red when its setting is dropped on the way.
#include <sched.h>
#include <signal.h>

#include <fstream>

#include "support/catch.h"
#include "tasks/verifier.h"
#include "train/plan/options.h"
#include "train/policy/policy.h"
#include "train/prompts/prompts.h"
#include "train/prompts/text_options.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

/// Metric rows of a run of the tiny recipe with these arguments.
std::vector<nlohmann::json> rows_with(const fs::path& run, const std::string& arguments) {
  const test::Outcome outcome = test::run_command(test::tiny_command(run, arguments));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  return test::stable_rows(run / "metrics.jsonl");
}

std::string long_prompts(const fs::path& file, const std::string& data_source) {
  const std::string prompt(60, '7');
  std::ofstream(file) << R"({"prompt":")" << prompt
                      << R"(","ground_truth":{"numbers":[1,2],"target":3},"data_source":")" << data_source << "\"}\n";
  return file.string();
}

}  // namespace

TEST_CASE("trainer.device: an absent GPU ends a run before its cold start, with exit code 2") {
  if (std::filesystem::exists("/dev/nvidiactl")) return test::skip("there is a GPU here");
  const test::TempDir dir;
  const test::Outcome outcome = test::run_command(test::tiny_command(dir / "run", " --set rollout.device=cuda"));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.output.find("rollout.device") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(dir / "run/checkpoints/sft_12"));
}

TEST_CASE("RL after a cold start: equals RL from its weights, with a fresh optimizer and the same KL reference") {
  const test::TempDir dir;
  // Warm-up and decay show the update count, two updates a step the moments, the KL term its reference.
  const std::string settings =
      " --set optim.lr_warmup_steps=3 --set optim.lr_scheduler=linear --set algorithm.kl_loss_coef=0.1";
  const auto after_cold_start = rows_with(dir / "one", settings);
  const std::string text = test::read_file(test::kTiny);
  const std::size_t sft = text.find("sft:\n"), reward = text.find("reward:");
  test::write_recipe(dir / "from_weights.yaml",
                     {{text.substr(text.find("model:"), text.find('\n', text.find("model:")) - text.find("model:")),
                       "model: {path: " + (dir / "one/checkpoints/sft_12").string() + ", dtype: float32}"},
                      {text.substr(sft, reward - sft), ""}});
  const test::Outcome outcome = test::run_command(test::kProgram + (dir / "from_weights.yaml").string() + settings +
                                                  " --set trainer.default_local_dir=" + (dir / "two").string());
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK(test::stable_rows(dir / "two/metrics.jsonl") == after_cold_start);
  CHECK(after_cold_start.at(4).at("actor/kl_loss") > 0);
  for (const char* file : {"checkpoints/step_4/model.safetensors", "checkpoints/step_4/optimizer.safetensors"}) {
    CHECK(test::read_file(dir / "one" / file) == test::read_file(dir / "two" / file));
  }
}

TEST_CASE("rollout.temperature: old, current and reference log-probs use it") {
  const test::TempDir dir;
  const std::string settings =
      " --set rollout.temperature=0.7 --set quant.rollout.weights=fp32 --set model.dtype=float32 "
      "--set trainer.total_training_steps=1 --set algorithm.kl_loss_coef=0.1 --set optim.lr=1e-12";
  // One update: the current log-probs serve as the old ones. Two: old log-probs are scored separately.
  for (const char* updates : {"--set actor.mini_batch_size=4", "--set actor.mini_batch_size=2"}) {
    INFO(updates);
    const auto row = rows_with(dir / std::string(updates).substr(28), updates + settings).at(1);
    CHECK(std::fabs(row.at("mismatch/k3_kl").get<double>()) < 1e-9);
    CHECK(std::fabs(row.at("actor/ppo_kl").get<double>()) < 1e-6);
    CHECK(std::fabs(row.at("actor/kl_loss").get<double>()) < 1e-9);
  }
}

TEST_CASE("actor.ppo_epochs: the number of passes over a step's mini-batches") {
  const test::TempDir dir;
  const auto rows = rows_with(dir / "run", "--set actor.ppo_epochs=3 --set trainer.total_training_steps=1");
  CHECK(rows.at(1).at("training/policy_version") == 6);
}

TEST_CASE("temperature, top-p, top-k: training and evaluation each use their own") {
  train::Recipe recipe = train::load_recipe(train::keys(), test::kTiny, {}, true).recipe;
  recipe.rollout.temperature = 0.5;
  recipe.rollout.top_p = 0.25;
  recipe.rollout.top_k = 3;
  recipe.eval.temperature = 0.75;
  recipe.eval.top_p = 0.125;
  recipe.eval.top_k = 5;
  const train::Policy policy = train::make_policy(recipe);
  const auto trained = train::train_sampling(recipe, policy.config, policy.tokenizer);
  CHECK(trained.temperature == 0.5F);
  CHECK(trained.top_p == 0.25F);
  CHECK(trained.top_k == 3);
  CHECK(trained.max_kept == 256);
  const auto measured = train::eval_sampling(recipe, policy.config, policy.tokenizer);
  CHECK(measured.temperature == 0.75F);
  CHECK(measured.top_p == 0.125F);
  CHECK(measured.top_k == 5);
  CHECK(measured.max_kept == 0);  // nothing learns from these
  CHECK(measured.max_new_tokens == recipe.data.max_response_length);
}

TEST_CASE("greedy evaluation: equals a nucleus of one token, every time") {
  const auto said = [](const std::string& settings) {
    const test::Outcome outcome =
        test::run_command(test::kProgram + "generate " + test::kTiny + " --prompt '1 2 3\n' --n 2 --json " + settings);
    REQUIRE(outcome.exit_code == 0);
    std::istringstream lines(outcome.output);
    std::vector<std::string> responses;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("{")) responses.push_back(nlohmann::json::parse(line).at("response"));
    }
    return responses;
  };
  const auto greedy = said("--set eval.temperature=0"), nucleus = said("--set eval.top_p=1e-6");
  REQUIRE(greedy.size() == 2);
  CHECK(greedy[0] == greedy[1]);
  CHECK(nucleus == greedy);
  CHECK(said("") != greedy);
}

TEST_CASE("data.overlong_prompt: truncate keeps a prompt's last tokens, filter drops it, error names its line") {
  const test::TempDir dir;
  test::write_recipe(dir / "recipe.yaml",
                     {{"train_generator: {task: countdown, size: 64, max_number: 9, max_target: 30}",
                       "train_files: [" + long_prompts(dir / "long.jsonl", "long") + "]"}});
  const auto load = [&](const std::string& what) {
    const std::string setting = "data.overlong_prompt=" + what;
    const train::LoadedRecipe loaded =
        train::load_recipe(train::keys(), dir / "recipe.yaml", std::span(&setting, 1), true);
    const train::Policy policy = train::make_policy(loaded.recipe);
    return train::load_train_prompts(loaded.recipe, policy.tokenizer,
                                     *tasks::make_verifier(train::verifier_options(loaded.recipe)));
  };
  const train::PromptSet cut = load("truncate");
  REQUIRE(cut.prompts.size() == 1);
  CHECK(cut.prompts[0].tokens == std::vector<types::TokenId>(24, '7'));
  CHECK_THROWS_WITH(load("filter"), Catch::Matchers::Contains("max_prompt_length"));
  CHECK_THROWS_WITH(load("error"), Catch::Matchers::Contains("long.jsonl:1"));
}

TEST_CASE("held-out prompts: if all are left out, an input error names their source") {
  const test::TempDir dir;
  test::write_recipe(dir / "recipe.yaml", {{"val_generator: {task: countdown, size: 8, max_number: 9, max_target: 30}",
                                            "val_files: [" + long_prompts(dir / "long.jsonl", "far_too_long") + "]"}});
  const std::string arguments = (dir / "recipe.yaml").string() + " --set data.overlong_prompt=filter" +
                                " --set trainer.default_local_dir=" + (dir / "run").string();
  for (const std::string command : {"", "eval ", "--dry-run "}) {
    const test::Outcome outcome = test::run_command(test::kProgram + command + arguments);
    INFO(command << outcome.output);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.output.find("far_too_long") != std::string::npos);
  }
}

TEST_CASE("processors: a run keeps to those that it was started on") {
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  if (CPU_COUNT(&allowed) < 2 || std::system("command -v taskset > /dev/null") != 0)
    return test::skip("one processor, or no taskset");
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  const test::TempDir dir;
  const pid_t pid = test::start_command(
      test::tiny_command(dir / "run", "--set sft.steps=2000", "taskset -c " + std::to_string(first)), dir / "log");
  CHECK(test::wait_for_file(dir / "run/checkpoints/sft_5", pid));
  const std::string status = test::read_file("/proc/" + std::to_string(pid) + "/status");
  kill(-pid, SIGKILL);
  test::wait_for(pid);
  const std::size_t at = status.find("Cpus_allowed_list:\t");
  REQUIRE(at != std::string::npos);
  CHECK(status.substr(at + 19, status.find('\n', at) - at - 19) == std::to_string(first));
}
