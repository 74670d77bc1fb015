#include <fstream>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl::test;

namespace {

Outcome judge(const std::string& arguments, const std::string& rows) {
  const TempDir folder;
  const auto file = folder / "rows.jsonl";
  std::ofstream(file) << rows;
  return run_command(std::string(QRL_BINARY_DIR) + "/qrl-train judge " + arguments + " < " + file.string());
}

}  // namespace

TEST_CASE("judge: keeps the order of rows and scores an unreadable gold answer 0") {
  std::string rows;
  std::string expected;
  for (int i = 0; i < 10000; ++i) {
    const std::string n = std::to_string(i);
    rows += R"({"response":"\\boxed{)" + n + R"(}","ground_truth":")" + (i % 3 == 0 ? "7" : n) + "\"}\n";
    const bool right = i % 3 != 0;
    expected += std::string(R"({"score":)") + (right ? "1" : "0") + R"(,"reason":")" +
                (right ? "correct" : "wrong value") + R"(","extracted":")" + n + "\"}\n";
  }
  CHECK(judge("--verifier math", rows).output == expected);
  CHECK(judge("--verifier math", R"({"response":"\\boxed{1}","ground_truth":""})"
                                 "\n")
            .output == R"({"score":0,"reason":"gold","extracted":""})"
                       "\n");
  CHECK(judge("--verifier math --profile gsm8k", R"({"response":"\\boxed{1}","ground_truth":1})"
                                                 "\n")
            .output == R"({"score":0,"reason":"no answer","extracted":""})"
                       "\n");
  CHECK(judge("--verifier countdown", R"({"response":"<answer>3+4</answer>","numbers":[3,4],"target":7})"
                                      "\n")
            .output == R"({"score":1,"reason":"correct","extracted":"3+4"})"
                       "\n");
  CHECK(judge("--verifier sudoku", R"({"response":"3142243142131324","puzzle":"3102200002100320"})"
                                   "\n")
            .output == R"({"score":1,"reason":"correct","extracted":"3142243142131324","credit":1.0})"
                       "\n");
}

TEST_CASE("judge: reads lines as training data, skips blank ones, names text that is no JSONL") {
  const std::string row = R"({"response":"\\boxed{1}","ground_truth":"1"})";
  const Outcome blank = judge("--verifier math", "\xEF\xBB\xBF\n" + row + "\r\n \t\n\n" + row + "\n{");
  CHECK(blank.exit_code == 2);
  CHECK(blank.output.find("standard input:6") != std::string::npos);
  std::size_t num_verdicts = 0;
  for (std::size_t at = 0; (at = blank.output.find("\"score\":1", at)) != std::string::npos; ++at) ++num_verdicts;
  CHECK(num_verdicts == 2);
  CHECK(judge("--verifier math", "\n \n").exit_code == 2);  // no row is probably a mistake
  CHECK(judge("--verifier math", "[" + row + "]").output.find("a JSON array") != std::string::npos);
}

TEST_CASE("judge: reads lone surrogates as the replacement character, and pairs as their character") {
  const auto extracted = [](const std::string& escaped) {
    const Outcome outcome =
        judge("--verifier math", R"({"response":"\\boxed{)" + escaped + R"(}","ground_truth":"1"})");
    CHECK(outcome.exit_code == 0);
    return outcome.output;
  };
  const auto says = [&](const std::string& escaped, const std::string& text) {
    return extracted(escaped).find("\"extracted\":\"" + text + "\"") != std::string::npos;
  };
  CHECK(says(R"(a\ud800b)", "a\ufffdb"));
  CHECK(says(R"(a\uDC00)", "a\ufffd"));
  CHECK(says(R"(\ud800\ud83d\ude00)", "\ufffd\U0001F600"));
  CHECK(says(R"(\ude00\ud83d)", "\ufffd\ufffd"));
  CHECK(says(R"(\\ud800)", R"(\\ud800)"));  // a backslash and letters
}

TEST_CASE("judge: ends at an invalid row, after the verdicts before it") {
  const std::string good = R"({"response":"\\boxed{1}","ground_truth":"1"})"
                           "\n";
  for (const char* bad : {"{", "[]", R"({"response":"x"})", R"({"ground_truth":"1"})"}) {
    INFO(bad);
    const Outcome outcome = judge("--verifier math", good + bad + "\n" + good);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.output.find("\"score\":1") != std::string::npos);
    CHECK(outcome.output.find("standard input:2") != std::string::npos);
  }
  CHECK(judge("--verifier chess", good).exit_code == 2);
  CHECK(judge("--verifier sudoku --profile boxed", good).exit_code == 2);
}

TEST_CASE("judge: reads rows as strictly as training data, except unusable gold answers") {
  std::string deep = R"({"ground_truth":"5","response":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  CHECK(judge("--verifier math", deep).exit_code == 2);
  CHECK(judge("--verifier math", R"({"response":"1","response":"2","ground_truth":"2"})").exit_code == 2);
  // More digits than a double holds: no gold, instead of another number.
  CHECK(judge("--verifier math", R"({"response":"\\boxed{1}","ground_truth":123456789012345678901234567890})").output ==
        "{\"score\":0,\"reason\":\"gold\",\"extracted\":\"\"}\n");
  CHECK(judge("--verifier math",
              "\xEF\xBB\xBF"
              R"({"response":"a\u0000b \\boxed{0.5}","ground_truth":0.5})")
            .output == "{\"score\":1,\"reason\":\"correct\",\"extracted\":\"0.5\"}\n");
}

TEST_CASE("judge: takes the ground truth from the given field, and lists the fields of a row without it") {
  const std::string row = R"({"response":"\\boxed{85}","answer":"85","meta":{"gold":"86"}})"
                          "\n";
  CHECK(judge("--verifier math --ground-truth-key answer", row).output ==
        "{\"score\":1,\"reason\":\"correct\",\"extracted\":\"85\"}\n");
  CHECK(judge("--verifier math --ground-truth-key meta.gold", row).output.find("wrong value") != std::string::npos);
  const Outcome none = judge("--verifier math", row);
  CHECK(none.exit_code == 2);
  CHECK(none.output.find("standard input:1: expected a field \"ground_truth\", got a row with the fields \"answer\", "
                         "\"meta\", \"response\"; name the field with --ground-truth-key NAME") != std::string::npos);
  CHECK(judge("--verifier math --ground-truth-key gold", row).output.find("a field \"gold\"") != std::string::npos);
  CHECK(judge("--verifier countdown --ground-truth-key gold",
              R"({"response":"<answer>3+4</answer>","gold":{"numbers":[3,4],"target":7}})")
            .output.find("\"score\":1") != std::string::npos);
  CHECK(judge("--verifier countdown --ground-truth-key gold",
              R"({"response":"<answer>3+4</answer>","numbers":[3,4],"target":7})")
            .exit_code == 2);
  CHECK(judge("--verifier math --ground-truth-key ''", row).exit_code == 2);
  CHECK(judge("--help", "").output.find("--ground-truth-key") != std::string::npos);
}

TEST_CASE("judge --recipe: reads the ground truth from training's fields") {
  const TempDir dir;
  std::ofstream(dir / "r.yaml") << "reward: {verifier: math}\n";
  const auto by_recipe = [&](const std::string& row) {
    return judge("--recipe " + (dir / "r.yaml").string(), R"({"response":"\\boxed{85}",)" + row + "}\n").output;
  };
  CHECK(by_recipe(R"("answer":"85")").starts_with("{\"score\":1.0"));
  CHECK(by_recipe(R"("reward_model":{"ground_truth":"85"})").starts_with("{\"score\":1.0"));
  CHECK(by_recipe(R"("gold":"85")").find("expected a field \"ground_truth\" or \"answer\" or ") != std::string::npos);
  CHECK(by_recipe(R"("gold":"85")").find("name the field with --set data.ground_truth_key=NAME") != std::string::npos);
  CHECK(by_recipe(R"("answer":"85","ground_truth":"1")").find("got both `ground_truth` and `answer`") !=
        std::string::npos);
}

TEST_CASE("judge --answer-form value: refuses a sum in the box, any is the default") {
  const std::string rows = R"({"response":"\\boxed{25+60}","ground_truth":"85"})"
                           "\n"
                           R"({"response":"\\boxed{85}","ground_truth":"85"})"
                           "\n";
  const std::string right = R"({"score":1,"reason":"correct","extracted":"85"})"
                            "\n";
  const std::string sum = R"({"score":1,"reason":"correct","extracted":"25+60"})"
                          "\n";
  CHECK(judge("--verifier math", rows).output == sum + right);
  CHECK(judge("--verifier math --answer-form any", rows).output == sum + right);
  CHECK(judge("--verifier math --answer-form value", rows).output ==
        R"({"score":0,"reason":"operation left to do","extracted":"25+60"})"
        "\n" +
            right);
  CHECK(judge("--verifier countdown --answer-form value", rows).exit_code == 2);
}

TEST_CASE("judge: takes a list of accepted answers as alternatives") {
  CHECK(judge("--verifier math", R"({"response": "\\boxed{7}", "ground_truth": ["8", "7.0"]})"
                                 "\n"
                                 R"({"response": "\\boxed{7, 8}", "ground_truth": ["7", "8"]})"
                                 "\n")
            .output == R"({"score":1,"reason":"correct","extracted":"7"})"
                       "\n"
                       R"({"score":0,"reason":"wrong value","extracted":"7, 8"})"
                       "\n");
}

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// A recipe that judges by the user's file, in its own folder.
struct OwnReward {
  OwnReward(const std::string& form, const std::string& function) {
    std::ofstream(dir / "reward.py") << function;
    std::ofstream(dir / "r.yaml") << "model: {init: {config: " QRL_SOURCE_DIR
                                     "/recipes/models/quickstart/config.json}}\n"
                                  << "data: {train_generator: {task: countdown, size: 16}}\n"
                                  << "reward: {verifier: command, command: [python3, -m, qrl_reward, \"" << form
                                  << "\"], workers: 1}\n";
  }
  Outcome judge() const {
    return ::judge("--recipe " + (dir / "r.yaml").string(),
                   R"({"prompt": "3+4", "response": "3+4 = 7", "ground_truth": "7"})"
                   "\n"
                   R"({"prompt": "3+5", "response": "3+5 = 9", "ground_truth": "8"})"
                   "\n");
  }
  TempDir dir;
};

}  // namespace

TEST_CASE("judge: shows what a reward function prints") {
  const OwnReward reward("verl:reward.py:compute_score", R"(
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    print("LOOK HERE", repr(solution_str))
    return 1.0
)");
  CHECK(says(reward.judge(), "LOOK HERE '3+4 = 7'"));
  CHECK(says(run_command(kProgram + "check reward " + (reward.dir / "r.yaml").string()), "LOOK HERE ''"));
}

TEST_CASE("reward functions of other trainers: receive their usual arguments") {
  const OwnReward trl("trl:reward.py:later", R"(
def later(completions, trainer_state, **kwargs):
    return [1.0 if trainer_state.global_step >= 0 else 0.0 for _ in completions]
)");
  CHECK(says(trl.judge(), R"("scores":{"later":1.0})"));
  const OwnReward slime("slime:reward.py:rm", R"(
async def rm(args, sample, **kwargs):
    return {"score": float(sample.response.endswith(sample.label)), "tokens": len(sample.tokens), "place": sample.index}
)");
  const Outcome outcome = slime.judge();
  CHECK(says(outcome, R"("scores":{"score":1.0,"place":0.0,"tokens":11.0})"));  // 3 + 7 bytes and the end
  CHECK(says(outcome, R"("scores":{"score":0.0,"place":1.0,"tokens":11.0})"));
}

TEST_CASE("program as judge: accepts rows without ground truths, other verifiers refuse them") {
  const OwnReward reward("trl:reward.py:starts", R"(
def starts(completions, letter, **kwargs):
    assert "ground_truth" not in kwargs
    return [float(text.startswith(each)) for text, each in zip(completions, letter)]
)");
  std::ofstream(reward.dir / "rows.jsonl") << R"({"prompt": "a word with d", "letter": "d"})"
                                           << "\n"
                                           << R"({"prompt": "a word with e", "letter": "e"})"
                                           << "\n";
  const std::string set =
      " --set data.train_generator.task=null --set data.train_files=[" + (reward.dir / "rows.jsonl").string() + "]";
  const Outcome check = run_command(kProgram + "check reward " + (reward.dir / "r.yaml").string() + set);
  CHECK(check.exit_code == 0);
  CHECK(says(check, "  2 rows judged"));
  CHECK_FALSE(says(check, "ground truth"));
  const std::string row = R"({"prompt": "p", "response": "dog", "letter": "d"})";
  CHECK(says(judge("--recipe " + (reward.dir / "r.yaml").string(), row + "\n"), R"({"score":1.0,"outcome":"correct")"));
  const Outcome by_math = run_command(kProgram + "check reward " + (reward.dir / "r.yaml").string() + set +
                                      " --set reward.verifier=math --set reward.command=[] --set reward.workers=auto");
  CHECK(by_math.exit_code == 2);
  CHECK(says(by_math, "rows.jsonl:1: expected a field `ground_truth`"));
}

TEST_CASE("judge, check reward: show what a reward function reads, one traceback, and the first cause") {
  const OwnReward reading("trl:reward.py:lengths", R"(
def lengths(completions, **kwargs):
    assert kwargs.get("level") is None
    return [float(len(ids)) for ids in kwargs["completion_ids"]]
)");
  CHECK(says(reading.judge(), R"("scores":{"lengths":8.0})"));
  CHECK(says(reading.judge(), "reads lengths: level, and gets nothing for it"));
  const Outcome check = run_command(kProgram + "check reward " + (reading.dir / "r.yaml").string());
  CHECK(says(check, "reads lengths: completion_ids  the ids of each response's tokens"));
  CHECK(count_of(check.output, "gets nothing for it") == 1);
  CHECK(says(check, "reads lengths: level           nothing"));
  CHECK(check.exit_code == 0);

  const OwnReward raising("verl:reward.py:compute_score", R"(
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return float(solution_str.split(" = ")[1] == ground_truth) if solution_str not in ("", ground_truth) else 1.0
)");
  const Outcome judged = judge("--recipe " + (raising.dir / "r.yaml").string(),
                               R"({"prompt": "3+4", "response": "none", "ground_truth": "7"})"
                               "\n"
                               R"({"prompt": "3+5", "response": "nothing", "ground_truth": "8"})"
                               "\n");
  CHECK(count_of(judged.output, "Traceback") == 1);
  CHECK(count_of(judged.output, "IndexError: list index out of range at reward.py:3; columns") == 2);

  const OwnReward returning("trl:reward.py:half", R"(
def half(completions, **kwargs):
    return 0.5
)");
  const Outcome refused = run_command(kProgram + "check reward " + (returning.dir / "r.yaml").string());
  CHECK(refused.exit_code == 2);
  CHECK(says(refused, "error: reward.command: reward.py:2: half returned 0.5 (float); expected a list of finite"));
  CHECK(count_of(refused.output, "half returned") == 1);
  CHECK(count_of(refused.output, "start_timeout_s") + count_of(refused.output, "withheld") == 0);
}

TEST_CASE("NaN score: means not applicable, and a program that writes it gets an error that says so") {
  const OwnReward some("trl:reward.py:some,all", R"(
def some(completions, **kwargs):
    return [float("nan") for _ in completions]
def all(completions, **kwargs):
    return [0.5 for _ in completions]
)");
  CHECK(says(some.judge(),
             R"({"score":0.5,"outcome":"wrong","reason":"wrong","extracted":"","scores":{"some":null,"all":0.5}})"));
  OwnReward program("reward.py", R"(
import json, sys
sys.stdin.readline()
print('{"ready": {"scores": ["s"]}}', flush=True)
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "score": float("nan")}), flush=True)
)");
  const Outcome outcome = ::judge("--recipe " + (program.dir / "r.yaml").string() +
                                      " --set 'reward.command=[python3, " + (program.dir / "reward.py").string() + "]'",
                                  R"({"response": "7", "ground_truth": "7"})"
                                  "\n");
  CHECK(says(outcome, "reward.command wrote NaN or an infinity (use null for a score that does not apply)"));
}
