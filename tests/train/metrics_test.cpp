// Tests that docs/reference/metrics.md lists all names in metrics.jsonl, which are an interface.
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

/// "a/{x,y}/b" → a/x/b, a/y/b.
std::vector<std::string> expand(const std::string& name) {
  static const std::regex braces(R"(([^{]*)\{([^}]*)\}(.*))");
  std::smatch match;
  if (!std::regex_match(name, match, braces)) return {name};
  std::vector<std::string> names;
  std::istringstream words(match[2].str());
  for (std::string word; std::getline(words, word, ',');) names.push_back(match[1].str() + word + match[3].str());
  return names;
}

/// The first cells of the page's table rows.
std::set<std::string> names_on_page() {
  static const std::regex row(R"(\n\| `([^`]+)` \|)");
  const std::string text = test::read_file(QRL_SOURCE_DIR "/docs/reference/metrics.md");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), row), end; it != end; ++it) {
    for (const std::string& name : expand((*it)[1])) {
      INFO(name << " stands twice");
      CHECK(names.insert(name).second);
    }
  }
  return names;
}

/// val/countdown/mean@2 → val/SOURCE/mean@N, …/layer_0 → …/layer_N, as the page writes it.
std::string page_name(std::string name) {
  name = std::regex_replace(name, std::regex("^val/[^/]+/"), "val/SOURCE/");
  name = std::regex_replace(name, std::regex(R"((mean|maj)@\d+)"), "$1@N");
  name = std::regex_replace(name, std::regex(R"(/layer_\d+$)"), "/layer_N");
  return std::regex_replace(name, std::regex(R"(pass@\d+)"), "pass@K");
}

void add_names(const fs::path& file, std::set<std::string>& names) {
  std::istringstream lines(test::read_file(file));
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    for (const auto& [name, value] : row.items()) {
      if (name != "step") names.insert(page_name(name));
    }
  }
}

std::string without(const std::set<std::string>& all, const std::set<std::string>& some) {
  std::string left;
  for (const std::string& name : all) left += some.count(name) > 0 ? "" : name + " ";
  return left;
}

}  // namespace

TEST_CASE("docs/reference/metrics.md: lists exactly the names that runs write") {
  const test::TempDir dir;
  // Most responses of a random model hold a number: some groups differ by the score of the form.
  const std::string arithmetic =
      "--set data.train_generator.task=arithmetic --set data.val_generator.task=arithmetic --set "
      "data.max_prompt_length=200 --set actor.max_tokens_per_micro_batch=512 --set reward.verifier=math "
      "--set reward.profile=last_number --set reward.format=0.5 ";
  std::ofstream(dir / "judge.py") << "from qrl_reward import serve\n"
                                     "serve(lambda row: {'NAME': len(row['response'])}, scores={'NAME': 1})\n";
  std::ofstream(dir / "game.py") << "from qrl_env import serve\n"
                                    "class Game:\n"
                                    "    def reset(self, row): pass\n"
                                    "    def step(self, turn): return {'done': True} if turn['last'] else '?'\n"
                                    "serve(Game)\n";
  const std::string variants[] = {
      "--set sft.steps=0 --set algorithm.name=dppo_tv --set rollout_correction.method=none "
      "--set reward.verifier=command --set reward.command=[python3," +
          (dir / "judge.py").string() + "]",
      arithmetic +
          "--set sft.steps=0 --set algorithm.name=dapo --set algorithm.kl_loss_coef=0.1 "
          "--set rollout_correction.acr=true --set reward.overlong_buffer.enable=true "
          "--set reward.overlong_buffer.len=8 --set 'algorithm.filter_groups={enable: true, max_num_gen_batches: 40, "
          "on_exhausted: train_partial}'",
      "--set sft.steps=0 --set algorithm.name=tbpo --set rollout_correction.method=tbpo "
      "--set quant.rollout.noise.start=0.01 "
      "--set model.init.config=" QRL_SOURCE_DIR "/recipes/models/quickstart-moe/config.json",
      "--set sft.steps=0 --set rollout_correction.method=ais --set algorithm.name=sapo "
      "--set quant.rollout.kv_cache=fp8_e4m3 --set rollout.top_p=0.9",
      "--set rollout_correction.method=icepop --set 'rollout_correction={rs: token, rs_threshold: 2, "
      "token_veto_threshold: 0.1, batch_normalize: true}' --set 'algorithm={name: cispo, top_entropy_quantile: 0.5, "
      "off_policy_mask_threshold: 0.1, clip_cov: {ratio: 0.1}}' --set algorithm.teacher.path=" +
          (dir / "2/checkpoints/step_1").string(),
      "--set sft.steps=0 --set data.max_response_length=40 --set environment.style=continue --set "
      "environment.max_turns=2 --set environment.max_turn_tokens=12 --set environment.command=[python3," +
          (dir / "game.py").string() + "]"};
  std::set<std::string> written;
  int number = 0;
  for (const std::string& settings : variants) {
    const fs::path run = dir / std::to_string(++number);
    const test::Outcome outcome =
        test::run_command(test::tiny_command(run, "--set trainer.total_training_steps=1 " + settings));
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    add_names(run / "metrics.jsonl", written);
    if (fs::exists(run / "sft_metrics.jsonl")) add_names(run / "sft_metrics.jsonl", written);
  }
  // A cold start from files has a loss on held-out rows.
  const std::string rows = (dir / "rows.jsonl").string();
  std::ofstream(rows) << "{\"prompt\": \"1 1 = 2\\n\", \"response\": \"<answer>1 + 1</answer>\"}\n";
  const test::Outcome cold =
      test::run_command(test::tiny_command(dir / "cold",
                                           "--set trainer.total_training_steps=0 --set eval.before_train=false --set "
                                           "sft.demonstrations.task=null --set sft.train_files=[" +
                                               rows + "] --set sft.val_files=[" + rows + "]"));
  INFO(cold.output);
  REQUIRE(cold.exit_code == 0);
  add_names(dir / "cold" / "sft_metrics.jsonl", written);
  std::set<std::string> page = names_on_page();
  CHECK(without(written, page) == "");
  // Its tokenizer lacks bytes: inputs_test.cpp reads it from a run.
  CHECK(page.erase("data/unencodable_bytes") == 1);
  CHECK(without(page, written) == "");
}
