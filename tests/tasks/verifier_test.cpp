#include "tasks/verifier.h"

#include "base/error.h"
#include "support/catch.h"
#include "support/refusal.h"
#include "tasks/alternatives.h"
#include "tasks/arithmetic/generator.h"
#include "tasks/math/verifier.h"
#include "tasks/support.h"

using namespace qrl;

TEST_CASE("verifier: an unusable gold answer's error names reward.verifier and other verifiers") {
  const auto refusal = [](const char* verifier, const char* gold) -> std::string {
    const tasks::VerifierOptions options = test::options_with(verifier);
    try {
      tasks::check_gold(*tasks::make_verifier(options), options, {gold}, "train.jsonl:3");
    } catch (const base::Error& error) {
      CHECK(error.exit_code() == 2);
      return error.what();
    }
    return "";
  };
  const auto says = [&](const char* verifier, const char* gold, const std::string& expected,
                        const std::string& advice) {
    const std::string text = refusal(verifier, gold);
    INFO(text);
    CHECK(text.starts_with("train.jsonl:3: expected " + expected));
    CHECK(text.ends_with("; reward.verifier is " + advice));
  };
  says("countdown", "85", "a countdown ground truth such as {\"numbers\":[3,8,12],\"target\":36}",
       "countdown: for data of another task set reward.verifier: math for answers in mathematics, sudoku for grids, "
       "command for data that your program judges, environment for data that an environment judges");
  says("math", "{\"numbers\":[3,4],\"target\":7}", "a gold answer in LaTeX or plain mathematics",
       "math: for data of another task set reward.verifier: countdown for numbers and a target, sudoku for grids, "
       "command for data that your program judges, environment for data that an environment judges");
  says("sudoku", "85", "a sudoku ground truth such as",
       "sudoku: for data of another task set reward.verifier: math for answers in mathematics, countdown for numbers "
       "and a target, command for data that your program judges, environment for data that an environment judges");
  CHECK(refusal("countdown", "{\"numbers\":[3,4],\"target\":7}").empty());
  CHECK(refusal("math", "85").empty());
}

TEST_CASE("answer_form value: the question copied into the box gets no reward") {
  const tasks::ArithmeticRanges ranges{.min_steps = 1, .max_steps = 2, .max_number = 12, .max_target = 40};
  const tasks::MathVerifier any(reward::math::Profile::automatic, reward::math::RequiredForm::any);
  const tasks::MathVerifier value(reward::math::Profile::automatic, reward::math::RequiredForm::value);
  constexpr std::uint64_t kTasks = 500;
  for (std::uint64_t index = 0; index < kTasks; ++index) {
    const auto task = tasks::generate_arithmetic(ranges, 7, tasks::Split::train, index);
    std::string question = std::to_string(task.start);
    for (const auto& step : task.steps) question = "(" + question + ")" + step.op + std::to_string(step.operand);
    const std::string copied = "\\boxed{" + question + "}", gold = std::to_string(task.answer());
    CAPTURE(copied);
    REQUIRE(test::judged(any, copied, gold).outcome == tasks::Outcome::correct);
    REQUIRE(test::judged(value, copied, gold).reason == "operation left to do");
    const std::string honest = "\\boxed{" + gold + "}";
    REQUIRE(test::judged(any, honest, gold).outcome == tasks::Outcome::correct);
    REQUIRE(test::judged(value, honest, gold).outcome == tasks::Outcome::correct);
  }
}

TEST_CASE("gold answer list: any of the accepted answers is right") {
  const auto judged = [](const char* verifier, const std::string& list, const std::string& response) {
    const auto rule = tasks::make_verifier(test::options_with(verifier));
    const tasks::Question question{list, {}, {}, list};
    rule->check_ground_truth(question, "f:1");
    const auto gold = rule->prepare(question);
    const tasks::Sample sample{response, gold.get()};
    return rule->judge(std::span(&sample, 1)).front();
  };
  const auto is_right = [&](const char* verifier, const std::string& list, const std::string& response) {
    return judged(verifier, list, response).outcome == tasks::Outcome::correct;
  };
  CHECK(is_right("math", R"(["7", "7.0"])", "\\boxed{7}"));
  CHECK(is_right("math", R"(["\\frac{1}{2}", "0.5"])", "\\boxed{0.5}"));
  CHECK(is_right("math", R"(["Paris", "City of Paris"])", "\\boxed{City of Paris}"));
  CHECK(is_right("math", "[8, 7]", "\\boxed{7}"));
  CHECK_FALSE(is_right("math", R"(["7", "8"])", "\\boxed{7, 8}"));
  CHECK(is_right("math", R"(["7, 8"])", "\\boxed{7, 8}"));
  CHECK_FALSE(is_right("math", R"(["7", "8"])", "\\boxed{9}"));
  CHECK(judged("math", R"(["7", "8"])", "\\boxed{9}").extracted == "9");
  const std::string two = R"([{"numbers":[2,5],"target":10},{"numbers":[2,5],"target":7}])";
  CHECK(is_right("countdown", two, "<answer>2*5</answer>"));
  CHECK(is_right("countdown", two, "<answer>2+5</answer>"));
  CHECK_FALSE(is_right("countdown", two, "<answer>5-2</answer>"));

  const auto math = tasks::make_verifier(test::options_with("math"));
  const auto refusal = [&](const std::string& list) {
    return test::refusal_of([&] { math->check_ground_truth({list, {}, {}, list}, "f:1"); });
  };
  CHECK(test::says(refusal("[]"), "f:1: expected a list of one or more accepted answers, got an empty list"));
  CHECK(test::says(refusal("[[7]]"), "f:1: expected strings, numbers or objects as accepted answers, got \"[7]\""));
  CHECK(test::says(refusal(R"(["7", ""])"), "f:1: "));
  // A text that looks like a list stays a text: an interval, for example.
  CHECK(test::judged(*math, "\\boxed{[7, 8]}", "[7, 8]").outcome == tasks::Outcome::correct);
  CHECK(tasks::first_answer(R"(["a","b"])") == "a");
  CHECK(tasks::first_answer(R"([{"target":7}])") == R"({"target":7})");
  CHECK(tasks::first_answer("[7, 8]") == "[7, 8]");
  CHECK(tasks::first_answer("7") == "7");
}

TEST_CASE("verifier batch: one verdict per sample, in order, with the verifier's named scores") {
  const auto verifier = tasks::make_verifier(test::options_with("sudoku"));
  const auto gold = verifier->prepare({R"({"puzzle":"3102200002100320"})"});
  REQUIRE(gold != nullptr);
  CHECK(verifier->prepare({"no grid"}) == nullptr);
  const std::vector<std::string> responses = {"3142243142131324", "3142243142131321", "none", "3142243142131324"};
  std::vector<tasks::Sample> samples;
  for (const std::string& response : responses) samples.push_back({response, gold.get()});
  samples.back().gold = nullptr;
  const std::vector<tasks::Verdict> verdicts = verifier->judge(samples);
  CHECK(verifier->score_names() == std::vector<std::string>{"correct", "wrong", "format", "partial"});
  REQUIRE(verdicts.size() == 4);
  using Scores = std::vector<double>;
  CHECK(verdicts[0].scores == Scores{1, 0, 0, 0});
  CHECK(verdicts[1].scores == Scores{0, 1, 1, verdicts[1].credit});
  CHECK(verdicts[1].credit > 0);
  CHECK(verdicts[2].scores == Scores{0, 1, 0, 0});
  CHECK(verdicts[3].reason == "gold");
  CHECK(verdicts[3].verifier_error);
  tasks::RuleWeights reward;
  reward.correct = 5;
  reward.wrong = -1;
  reward.format = 0.5;
  reward.partial = 2;
  CHECK(verifier->score_weights(reward) == Scores{5, -1, 0.5, 2});
}
