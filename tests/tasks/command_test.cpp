// Tests what a command receives and how its answers are read.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "support/files.h"
#include "tasks/command/error_log.h"
#include "tasks/command_support.h"

using namespace qrl;
using Catch::Contains;
using test::PythonCommand;

namespace {

/// Returns a program that answers each row by `answer`, a Python expression of `row`; `ready` is its ready line.
std::string program(const std::string& ready, const std::string& answer) {
  return R"(
import json, os, random, sys, time
hello = json.loads(sys.stdin.readline())["hello"]
def say(message): sys.stdout.write(json.dumps(message) + "\n"); sys.stdout.flush()
say({"ready": )" +
         ready + R"(})
for line in sys.stdin:
    with open("rows", "a") as rows: rows.write(line)
    row = json.loads(line)
    gold = row.get("gold")
    say({"id": (gold or row)["id"], **()" +
         answer + R"()})
)";
}

const char* const kOne = R"({"scores": ["s"]})";

std::vector<nlohmann::json> rows_of(const PythonCommand& command) {
  std::vector<nlohmann::json> rows;
  std::ifstream in(command.file("rows"));
  for (std::string line; std::getline(in, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

std::string refusal(const PythonCommand& command) {
  const auto [text, code] = test::error_of([&] { test::judge_all(*command.make(), {"x"}); });
  CHECK((text.empty() || code == 2));
  return text;
}

}  // namespace

TEST_CASE("command row: has prompt, unchanged ground truth, response, and the caller") {
  const PythonCommand command(
      program(R"({"scores": ["s"], "fields": ["row", "tokens", "prompt_tokens", "index"]})", R"({"score": 0.5})"));
  const auto verifier = command.make();
  const auto gold =
      verifier->prepare({"[1,2]", "how \"many\"?\n", "toy", "[1, 2]", R"({"answer":[1,2],"level":"hard"})"});
  const std::string bytes = "a\xff\n\"b\"";
  const std::vector<types::TokenId> tokens = {5, 0, 7}, prompt_tokens = {1, 2};
  const tasks::Sample sample{bytes, gold.get(), 0, types::StopReason::length, tokens, prompt_tokens, 11};
  const auto verdicts = verifier->judge(std::span(&sample, 1), {.step = 4, .is_evaluation = true});
  CHECK(verdicts.front().scores == std::vector<double>{0.5});
  CHECK(verdicts.front().outcome == tasks::Outcome::wrong);
  REQUIRE(rows_of(command).size() == 1);
  nlohmann::json row = rows_of(command).front();
  row.erase("id");
  CHECK(row == nlohmann::json::parse(R"({"prompt": "how \"many\"?\n", "ground_truth": [1, 2], "data_source": "toy",
      "row": {"answer": [1, 2], "level": "hard"}, "response": "a\ufffd\n\"b\"", "step": 4, "eval": true,
      "stop": "length", "response_tokens": 3, "tokens": [5, 0, 7], "prompt_tokens": [1, 2], "index": 11})"));
}

TEST_CASE("command ready: the worker first receives the first row, with only the requested fields") {
  const PythonCommand command(R"(
import json, sys
hello = json.loads(sys.stdin.readline())["hello"]
open("hello", "w").write(json.dumps(hello))
print('{"ready": {"scores": ["s"]}}', flush=True)
for line in sys.stdin:
    assert not {"row", "tokens", "prompt_tokens", "index"} & json.loads(line).keys()
    print(json.dumps({"id": json.loads(line)["id"], "score": 1}), flush=True)
)");
  const auto verifier = command.make();
  verifier->check_ground_truth({"7", "seven?", "toy", "7", R"({"answer":7})"}, "f:1");
  CHECK(test::judge_all(*verifier, {"x"}).front().outcome == tasks::Outcome::correct);
  const auto hello = nlohmann::json::parse(test::read_file(command.file("hello")));
  CHECK(hello.at("protocol") == 1);
  CHECK(hello.at("seed") == 0);
  CHECK(hello.at("first") == nlohmann::json::parse(R"({"prompt": "seven?", "ground_truth": 7, "data_source": "toy",
      "row": {"answer": 7}})"));
}

TEST_CASE("command scores: names, order and weights come from the ready line, reward.weights overrides weights") {
  PythonCommand command(
      program(R"({"scores": {"z": 1, "format": 0.5, "length": 0}})",
              R"({"scores": {"format": True, "z": 0.25, "length": None}, "reason": "so", "extracted": "7"})"));
  const auto verifier = command.make();
  const tasks::Verdict verdict = test::judge_all(*verifier, {"x"}).front();
  CHECK(verifier->score_names() == std::vector<std::string>{"z", "format", "length"});
  CHECK(verifier->score_weights(command.options.weights) == std::vector<double>{1, 0.5, 0});
  CHECK(verdict.scores[0] == 0.25);
  CHECK(verdict.scores[1] == 1);
  CHECK(std::isnan(verdict.scores[2]));
  CHECK(verdict.outcome == tasks::Outcome::wrong);  // the first score is below 1
  CHECK(verdict.detail == "so");
  CHECK(verdict.extracted == "7");
  command.options.command.weights = {{"length", -2}, {"z", 3}};
  command.options.command.correct_at = 0.25;
  const auto changed = command.make();
  CHECK(changed->score_weights(command.options.weights) == std::vector<double>{3, 0.5, -2});
  CHECK(test::judge_all(*changed, {"x"}).front().outcome == tasks::Outcome::correct);
}

TEST_CASE("command outcome: without one, a score named correct or acc gives it, after reward.correct_at") {
  const auto verdict_of = [](const std::string& ready, const std::string& answer, double at = 1) {
    PythonCommand command(program(ready, answer));
    command.options.command.correct_at = at;
    return test::judge_all(*command.make(), {"x"}).front();
  };
  const std::string with_acc = R"({"scores": {"score": 1, "acc": 0}})";
  const tasks::Verdict right = verdict_of(with_acc, R"({"scores": {"score": 0.5, "acc": True}})");
  CHECK((right.outcome == tasks::Outcome::correct && right.has_outcome));
  const tasks::Verdict wrong = verdict_of(with_acc, R"({"scores": {"score": 1, "acc": False}})");
  CHECK((wrong.outcome == tasks::Outcome::wrong && wrong.has_outcome));
  const tasks::Verdict named = verdict_of(R"({"scores": ["format", "correct"]})", R"({"scores": {"correct": 1}})");
  CHECK((named.outcome == tasks::Outcome::correct && named.has_outcome));
  const tasks::Verdict unsaid = verdict_of(with_acc, R"({"scores": {"score": 1, "acc": None}})");
  CHECK((unsaid.outcome == tasks::Outcome::correct && !unsaid.has_outcome));
  const tasks::Verdict graded = verdict_of(kOne, R"({"score": 0.9})");
  CHECK((graded.outcome == tasks::Outcome::wrong && !graded.has_outcome));
  const tasks::Verdict given = verdict_of(with_acc, R"({"scores": {"score": 0.5, "acc": False}})", 0.5);
  CHECK((given.outcome == tasks::Outcome::correct && given.has_outcome));
  CHECK(verdict_of(kOne, R"({"score": 0, "outcome": "wrong"})").has_outcome);
}

TEST_CASE("command outcome: an answer's own outcome counts, whatever its scores") {
  const PythonCommand command(program(kOne, R"({"score": 1, "outcome": row["response"]})"));
  const auto verdicts = test::judge_all(*command.make(), {"correct", "wrong", "no_answer", "maybe"});
  CHECK(verdicts[0].outcome == tasks::Outcome::correct);
  CHECK(verdicts[1].outcome == tasks::Outcome::wrong);
  CHECK(verdicts[2].outcome == tasks::Outcome::no_answer);
  CHECK_FALSE(verdicts[2].verifier_error);
  CHECK(verdicts[3].reason == "protocol");
}

TEST_CASE("command rows group: receives all of a group's responses together, in order") {
  for (const bool asks : {true, false}) {
    PythonCommand command(program(asks ? R"({"scores": ["s"], "rows": "group"})" : kOne,
                                  R"({"answers": [{"score": i + len(row["samples"]) / 10}
                                     for i, sample in enumerate(row["samples"])]})"));
    if (!asks) command.options.command.rows = tasks::RewardRows::group;
    const auto verifier = command.make();
    const auto gold = verifier->prepare({"7"});
    std::vector<tasks::Sample> samples;
    for (const std::int64_t group : {0, 0, 0, 1, 1}) samples.push_back({"x", gold.get(), group});
    const auto verdicts = verifier->judge(samples);
    const double want[] = {0.3, 1.3, 2.3, 0.2, 1.2};
    for (std::size_t i = 0; i < 5; ++i) CHECK(verdicts[i].scores == std::vector<double>{want[i]});
    CHECK(rows_of(command).size() == 2);
  }
  const PythonCommand short_of_one(program(R"({"scores": ["s"], "rows": "group"})", R"({"answers": [{"score": 1}]})"));
  const auto verdicts = test::judge_all(*short_of_one.make(), {"x", "y"});
  CHECK(verdicts[0].reason == "protocol");
  CHECK(verdicts[1].reason == "protocol");
}

TEST_CASE("command verdicts: independent of worker count, rows in flight and answer order") {
  std::vector<std::string> responses;
  for (int i = 0; i < 200; ++i) responses.push_back(std::to_string(i));
  const std::string answer = R"({"score": int(row["response"]) / 7, "extracted": row["response"]})";
  std::vector<double> first;
  for (const auto& [workers, in_flight] : {std::pair{1, 1}, std::pair{3, 1}, std::pair{2, 5}}) {
    PythonCommand command(program(kOne, answer));
    command.options.command.workers = workers;
    command.options.command.in_flight = in_flight;
    std::vector<double> scores;
    for (const tasks::Verdict& verdict : test::judge_all(*command.make(), responses))
      scores.push_back(verdict.scores.front());
    if (first.empty()) first = scores;
    CHECK(scores == first);
    CHECK(scores[70] == 10);
  }
}

TEST_CASE("command answers: may arrive in any order among rows in flight") {
  PythonCommand command(R"(
import json, sys
sys.stdin.readline()
print('{"ready": {"scores": ["s"]}}', flush=True)
held = []
for line in sys.stdin:
    held.append(json.loads(line))
    if len(held) == 4:
        for row in reversed(held):
            print(json.dumps({"id": row["id"], "score": int(row["response"])}))
        sys.stdout.flush()
        held = []
)");
  command.options.command.in_flight = 4;
  const auto verdicts = test::judge_all(*command.make(), {"0", "1", "2", "3", "4", "5", "6", "7"});
  for (std::size_t i = 0; i < 8; ++i) CHECK(verdicts[i].scores.front() == static_cast<double>(i));
}

TEST_CASE("reward.after: each row has the built-in verifier's verdict, which also checks gold answers") {
  PythonCommand command(
      program(kOne, R"({"score": row["verdict"]["score"] + 0.5, "extracted": row["verdict"]["extracted"]})"));
  command.options.command.after = command.options.known.select("math");
  const auto verifier = command.make();
  const auto gold = verifier->prepare({"1/2"});
  const tasks::Sample samples[] = {{"\\boxed{0.5}", gold.get()}, {"\\boxed{3}", gold.get()}};
  const auto verdicts = verifier->judge(samples);
  CHECK(verdicts[0].scores.front() == 1.5);
  CHECK(verdicts[1].scores.front() == 0.5);
  CHECK(rows_of(command)[1].at("verdict").at("outcome") == "wrong");
  CHECK(verifier->same_answer("\\frac12", "0.5"));
  CHECK_THROWS_WITH(verifier->check_ground_truth({"{\"numbers\":[3,4],\"target\":7}"}, "f:2"), Contains("f:2"));
}

TEST_CASE("command gold check: the program receives all gold answers, and every refused answer is named") {
  const PythonCommand command(program(R"({"scores": ["s"], "checks_gold": True})",
                                      R"({"ok": True} if gold["ground_truth"] != "bad" else {"error": "no tests"})"));
  const auto verifier = command.make();
  for (int i = 1; i <= 60; ++i) verifier->check_ground_truth({i % 2 == 0 ? "bad" : "good"}, "f:" + std::to_string(i));
  const auto [text, code] = test::error_of([&] { verifier->finish_checks(); });
  CHECK(code == 2);
  CHECK_THAT(text, Contains("30 of 60 refused, the first 20") && Contains("f:2: \"no tests\"") && Contains("f:40: ") &&
                       !Contains("f:42: "));
  CHECK_NOTHROW(verifier->finish_checks());
}

TEST_CASE("command gold check: stops after eight when no ground truth is answered") {
  const PythonCommand command(program(R"({"scores": ["s"], "checks_gold": True})", R"({"ok": None})"));
  const auto verifier = command.make();
  for (int i = 1; i <= 1000; ++i) verifier->check_ground_truth({"good"}, "f:" + std::to_string(i));
  const auto [text, code] = test::error_of([&] { verifier->finish_checks(); });
  CHECK(code == 2);
  CHECK_THAT(text, Contains("got 8 ground truths without an answer, the last at f:") && Contains(": protocol"));
}

TEST_CASE("command ready line: impossible statements are refused by name") {
  const auto said = [](const std::string& ready) { return refusal(PythonCommand(program(ready, R"({"score": 1})"))); };
  CHECK_THAT(said(R"({})"), Contains("a list of 1 to 64 names"));
  CHECK_THAT(said(R"({"scores": []})"), Contains("a list of 1 to 64 names"));
  CHECK_THAT(said(R"({"scores": ["a/b"]})"), Contains("score names of 1 to 64 letters") && Contains("a/b"));
  CHECK_THAT(said(R"({"scores": ["x" * 65]})"), Contains("score names of 1 to 64 letters"));
  CHECK_THAT(said(R"({"scores": ["a", "b", "a"]})"), Contains("\"a\" twice"));
  CHECK_THAT(said(R"({"scores": {"a": "1"}})"), Contains("a number as the weight of \"a\""));
  CHECK_THAT(said(R"({"scores": {"a": 0}})"), Contains("a score with a weight other than 0"));
  CHECK_THAT(said(R"({"scores": ["a"], "fields": ["logits"]})"), Contains("row, tokens, prompt_tokens or index"));
  CHECK_THAT(said(R"({"scores": ["a"], "rows": "batch"})"), Contains("sample or group"));
  CHECK_THAT(said(R"({"scores": ["a"], "checks_gold": 1})"), Contains("checks_gold"));
  CHECK_THAT(said(R"({"scores": ["a"], "reads": ["answer"]})"), Contains("an object for reads"));
  CHECK_THAT(said(R"({"scores": ["a"], "reads": {"answer": 1}})"), Contains("texts or null in reads"));
  CHECK_THAT(said(R"({"scores": ["a"], "notes": "none"})"), Contains("a list of texts for notes"));
}

TEST_CASE("command refusal: its stated reason is shown alone") {
  PythonCommand command(R"(
import json, sys
sys.stdin.readline()
print("loading", file=sys.stderr)
print(json.dumps({"error": "judge.py:3: no key; set NO_SUCH_KEY"}), flush=True)
)");
  CHECK(refusal(command) == "reward.command: judge.py:3: no key; set NO_SUCH_KEY");
  REQUIRE(setenv("NO_SUCH_KEY", "1", 1) == 0);
  const std::string with_variable = refusal(command);
  unsetenv("NO_SUCH_KEY");
  CHECK(with_variable ==
        "reward.command: judge.py:3: no key; set NO_SUCH_KEY\nthe program was not given NO_SUCH_KEY: "
        "set reward.env: [NO_SUCH_KEY]");
}

TEST_CASE("command description: reports the fields it reads, and workers may word it differently") {
  PythonCommand command(program(
      R"({"scores": ["s"], "fields": ["tokens"], "reads": {"answer": "7 of %d" % os.getpid(), "level": None}, "notes": ["a note"]})",
      R"({"score": 1})"));
  command.options.command.workers = 2;
  const auto verifier = command.make();
  CHECK_FALSE(verifier->wants_tokens());
  verifier->log_to(command.file("log"));
  const auto verdicts = test::judge_all(*verifier, std::vector<std::string>(20, "x"));
  CHECK(std::ranges::all_of(verdicts, [](const auto& verdict) { return !verdict.verifier_error; }));
  CHECK(verifier->wants_tokens());
  REQUIRE(verifier->reads().size() == 2);
  CHECK(verifier->reads()[0].first == "answer");
  CHECK(verifier->reads()[0].second.value_or("").starts_with("7 of "));
  CHECK(verifier->reads()[1] == tasks::Read{"level", std::nullopt});
  CHECK(test::read_file(command.file("log")) == "reward.command: a note\n");
}

TEST_CASE("command traceback: logged once, for any rows and workers") {
  PythonCommand command(
      program(kOne, R"({"error": "bad", "traceback": "File\n  line\nKeyError: " + row["response"]})"));
  command.options.command.workers = 2;
  const auto verifier = command.make();
  verifier->log_to(command.file("log"));
  const auto verdicts = test::judge_all(*verifier, {"a", "b", "c", "d", "e", "f"});
  CHECK(verdicts[5].detail == "bad");
  CHECK_THAT(test::read_file(command.file("log")), Catch::StartsWith("File\n  line\nKeyError: "));
  CHECK(test::read_file(command.file("log")).size() == std::string("File\n  line\nKeyError: a\n").size());
}

TEST_CASE("command ready line: contradictions with the recipe are refused by name") {
  PythonCommand command(program(kOne, R"({"score": 1})"));
  command.options.command.weights = {{"correct", 1}};
  CHECK_THAT(refusal(command), Contains("reward.weights: expected names among the command's scores: s, got correct"));
  command.options.command.weights = {{"s", 0}};
  CHECK_THAT(refusal(command), Contains("weight other than 0"));
  PythonCommand groups(program(R"({"scores": ["s"], "rows": "group"})", R"({"answers": []})"));
  groups.options.command.in_flight = 2;
  CHECK_THAT(refusal(groups), Contains("reward.in_flight"));
  const auto of_command = [&](const std::string& word) {
    command.options.command.argv = {word};
    return test::error_of([&] { (void)command.make(); }).first;
  };
  CHECK_THAT(of_command("no_such_program"), Contains("reward.command") && Contains("not in PATH"));
  CHECK_THAT(of_command("./missing.sh"), Contains("missing.sh") && Contains("cannot be executed"));
  CHECK_THAT(of_command("./judge.py"), Contains("cannot be executed"));  // it has no execute permission
  command.options.command.argv = {"python3", "missing.py"};
  CHECK_THAT(refusal(command), Contains("missing.py") && Contains("ended with exit code 2"));
}

TEST_CASE("reward.by_source: each data source has its own verifier and separate scores") {
  PythonCommand command(program(R"({"scores": {"correct": 2}})", R"({"score": 0.5})"));
  command.options.word = "math";
  command.options.by_source = {{"mytask", "command"}};
  command.options.weights.correct = 5;
  const auto verifier = command.make();
  CHECK_THROWS_WITH(verifier->check_ground_truth({"{\"numbers\":[3,4]}", "", "gsm8k"}, "f:3"), Contains("f:3"));
  CHECK_NOTHROW(verifier->check_ground_truth({"{\"numbers\":[3,4]}", "", "mytask"}, "f:4"));
  const auto sum = verifier->prepare({"12", "", "gsm8k"}), own = verifier->prepare({"12", "", "mytask"});
  const tasks::Sample samples[] = {{"\\boxed{12}", sum.get()}, {"12", own.get()}, {"\\boxed{13}", sum.get()}};
  const auto verdicts = verifier->judge(samples);
  CHECK(verifier->score_names() == std::vector<std::string>{"correct", "wrong", "format", "partial", "correct"});
  CHECK(verifier->score_weights(command.options.weights) == std::vector<double>{5, 0, 0, 0, 2});
  CHECK(verdicts[0].scores[0] == 1);
  CHECK(std::isnan(verdicts[0].scores[4]));
  CHECK(std::isnan(verdicts[1].scores[0]));
  CHECK(verdicts[1].scores[4] == 0.5);
  CHECK(verdicts[2].outcome == tasks::Outcome::wrong);
  CHECK_FALSE(verifier->is_rule());
  command.options.by_source = {{"grids", "sudoku"}};
  const auto rules = command.make();
  CHECK(rules->is_rule());
  CHECK(rules->score_names().size() == 4);
}

TEST_CASE("standard error log: keeps the newest lines") {
  const test::TempDir dir;
  tasks::ErrorLog log(1000);
  for (int i = 0; i < 30; ++i) log.add("before " + std::to_string(i) + "\n");
  log.open(dir / "reward.log");
  CHECK(test::read_file(dir / "reward.log").ends_with("before 29\n"));
  for (int i = 0; i < 500; ++i) log.add("line " + std::to_string(i) + "\n");
  const std::string text = test::read_file(dir / "reward.log");
  CHECK(text.size() <= 1000);
  CHECK(text.starts_with("line "));
  CHECK(text.ends_with("line 499\n"));
}

TEST_CASE("command throughput: two workers judge 8,192 rows of 2 KB") {
  PythonCommand command(R"(
import json, sys
sys.stdin.readline()
out = sys.stdout
out.write('{"ready": {"scores": ["s"]}}\n'); out.flush()
for line in sys.stdin:
    row = json.loads(line)
    out.write('{"id": %d, "score": %d}\n' % (row["id"], len(row["response"]))); out.flush()
)");
  command.options.command.workers = 2;
  const auto verifier = command.make();
  (void)test::judge_all(*verifier, std::vector<std::string>(2, "x"));
  const std::vector<std::string> responses(8192, std::string(2000, 'x'));
  CHECK(test::judge_all(*verifier, responses).back().scores.front() == 2000);
}
