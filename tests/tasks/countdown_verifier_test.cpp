#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "reward/answer.h"
#include "support/catch.h"
#include "tasks/countdown/expression.h"
#include "tasks/countdown/verifier.h"
#include "tasks/support.h"
#include "tasks/verifier.h"

using namespace qrl::tasks;
using nlohmann::json;
using qrl::reward::extract_answer;
using qrl::reward::kMaxScanned_bytes;
using qrl::test::judged;

namespace {

std::string truth_of(const std::vector<std::int64_t>& numbers, std::int64_t target) {
  return json{{"numbers", numbers}, {"target", target}}.dump();
}

Verdict judge(const std::string& response, const std::vector<std::int64_t>& numbers, std::int64_t target,
              Numbers rule = Numbers::all) {
  return judged(CountdownVerifier(rule), response, truth_of(numbers, target));
}

std::string tagged(const std::string& answer) { return "<answer>" + answer + "</answer>"; }
std::string reason_of(const std::string& answer, const std::vector<std::int64_t>& numbers, std::int64_t target) {
  return std::string(judge(tagged(answer), numbers, target).reason);
}

std::vector<json> read_rows(const std::filesystem::path& file) {
  std::vector<json> rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) rows.push_back(json::parse(line));
  return rows;
}

std::string repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

/// Returns the text of a row. Rows with a long hostile text hold a Python expression instead.
std::string response_of(const json& row) {
  if (row["pred"].is_string()) return row["pred"];
  const std::string python = row.at("pred_gen");
  if (python == "'<answer>'+'('*5000+'5'+')'*5000+'</answer>'")
    return tagged(repeat("(", 5000) + "5" + repeat(")", 5000));
  if (python == "'<answer>1'+'+1'*50000+'</answer>'") return tagged("1" + repeat("+1", 50000));
  FAIL("a form this test does not know: " << python);
  return {};
}

struct Tally {
  int rows = 0, expected_correct = 0, found_correct = 0, false_positives = 0;
};

Tally tally_known_answers(const std::filesystem::path& file) {
  Tally tally;
  for (const json& row : read_rows(file)) {
    if (!row.contains("expected_strict")) continue;
    const bool want = row["expected_strict"];
    const bool got = judge(response_of(row), row["numbers"], row["target"]).outcome == Outcome::correct;
    ++tally.rows;
    tally.expected_correct += want;
    tally.found_correct += want && got;
    if (got && !want) {
      ++tally.false_positives;
      UNSCOPED_INFO("false positive " << row["id"]);
    }
  }
  return tally;
}

}  // namespace

TEST_CASE("countdown verifier: LaTeX fractions and sized parentheses are read in a box") {
  const std::vector<std::pair<std::string, std::string>> rows = {{"\\frac{3 \\times 8}{2}", "12"},
                                                                 {"\\dfrac{8}{2}\\cdot3", "12"},
                                                                 {"\\left(8-2\\right)\\times 3-\\tfrac{8}{8}", "17"},
                                                                 {"\\frac{8}{2-\\frac{3}{2}}", "16"},
                                                                 {"\\frac82\\times3", "12"}};
  for (const auto& [text, value] : rows) {
    INFO(text);
    const Expression read = evaluate_expression(text, Operators::latex);
    CHECK(read.fault == ExpressionFault::none);
    CHECK(read.value.denominator == 1);
    CHECK(std::to_string(read.value.numerator) == value);
  }
  CHECK(evaluate_expression("\\frac{8}{2-2}", Operators::latex).fault == ExpressionFault::division_by_zero);
  CHECK(evaluate_expression("\\frac{8}{2}", Operators::latex).num_numbers == 2);
  for (const char* broken : {"\\frac{8}", "\\frac{8{2}", "\\left(8", "F{8}{2}", "\\left[8\\right]", "{8}"}) {
    INFO(broken);
    CHECK(evaluate_expression(broken, Operators::latex).fault == ExpressionFault::grammar);
  }
  CHECK(evaluate_expression("\\frac{8}{2}", Operators::ascii).fault == ExpressionFault::grammar);
  std::string deep;
  for (int i = 0; i < 2000; ++i) deep += "\\frac{";
  CHECK(evaluate_expression(deep, Operators::latex).fault != ExpressionFault::none);
}

TEST_CASE("countdown verifier: accepts the shared set's true answers and no false one") {
  const auto shared = qrl::test::shared_data();
  if (!shared) return qrl::test::skip("the shared data is missing: verifier/countdown_cases.jsonl");
  const auto file = *shared / "verifier" / "countdown_cases.jsonl";
  const Tally tally = tally_known_answers(file);
  CHECK(tally.rows == 338);
  CHECK(tally.expected_correct == 74);
  CHECK(tally.found_correct == 74);  // two of them open <answer>, never close it, and hold a \boxed{}
  CHECK(tally.false_positives == 0);
  // Counts suites whose contract allows unused numbers.
  int subset_rows = 0;
  for (const json& row : read_rows(file)) {
    if (row["rule"].get<std::string>().rfind("subset", 0) != 0) continue;
    ++subset_rows;
    INFO(row["id"]);
    const auto verdict = judge(response_of(row), row["numbers"], row["target"], Numbers::subset);
    CHECK((verdict.outcome == Outcome::correct) == row["expected"].get<bool>());
  }
  CHECK(subset_rows == 8);
}

TEST_CASE("countdown verifier: known answers of the shipped excerpt") {
  const Tally tally = tally_known_answers(qrl::test::shipped_data() / "countdown_cases_excerpt.jsonl");
  CHECK(tally.rows >= 40);
  CHECK(tally.expected_correct >= 12);
  CHECK(tally.found_correct == tally.expected_correct);
  CHECK(tally.false_positives == 0);
}

TEST_CASE("countdown verifier: equals an independent judge on random and mutated expressions") {
  const auto rows = read_rows(qrl::test::shipped_data() / "golden" / "countdown" / "verdicts.jsonl");
  REQUIRE(rows.size() == 700);
  const std::map<std::string, Outcome> outcomes = {
      {"correct", Outcome::correct}, {"wrong", Outcome::wrong}, {"no_answer", Outcome::no_answer}};
  for (const json& row : rows) {
    INFO(row.dump());
    const Numbers rule = row["rule"] == "all" ? Numbers::all : Numbers::subset;
    const auto verdict = judge(row["response"], row["numbers"], row["target"], rule);
    CHECK(verdict.outcome == outcomes.at(row["outcome"]));
    CHECK(verdict.reason == row["reason"].get<std::string>());
    CHECK_FALSE(verdict.verifier_error);
  }
}

TEST_CASE("countdown verifier: takes the last complete answer") {
  const auto text = [](const std::string& response) -> std::string {
    static std::string kept;  // the answer is a view into the response
    kept = response;
    const auto answer = extract_answer(kept);
    return answer ? (answer->boxed ? "box:" : "tag:") + std::string(answer->text) : "none";
  };
  CHECK(text("<answer> 1 </answer>") == "tag:1");
  CHECK(text("<answer>1</answer><answer>2</answer>") == "tag:2");
  CHECK(text("<answer>1</answer><answer>2") == "tag:1");
  CHECK(text("<answer>1</answer> 2</answer>") == "tag:1");
  CHECK(text("<answer>1<answer>2</answer>") == "tag:2");
  CHECK(text("</answer>1<answer>") == "none");
  CHECK(text("<answer>x \\boxed{1} y</answer> \\boxed{2}") == "box:1");
  CHECK(text("<answer>\\boxed{1</answer> \\boxed{2}") == "tag:\\boxed{1");
  CHECK(text("<answer>1 \\boxed{2}") == "box:2");
  CHECK(text("\\boxed{1} \\boxed{2} \\boxed{3") == "box:2");
  CHECK(text("\\boxed{\\frac{1}{2}}") == "box:\\frac{1}{2}");
  CHECK(text("\\boxed{\\boxed{1}}") == "box:1");
  CHECK(text("}{ \\boxed{1} {") == "box:1");
  CHECK(text("boxed{1}") == "none");
  CHECK(text("") == "none");
  CHECK(text("<answer></answer>") == "tag:");
}

TEST_CASE("countdown verifier: accepts exactly its grammar") {
  CHECK(reason_of("3 + 4", {3, 4}, 7) == "correct");
  CHECK(reason_of("-3--4", {3, 4}, 1) == "correct");
  CHECK(reason_of("8/(3-8/3)", {3, 8, 3, 8}, 24) == "correct");  // through thirds
  CHECK(reason_of("((3)\n+\t(4))", {3, 4}, 7) == "correct");
  CHECK(reason_of("3 - 4", {3, 4}, -1) == "correct");
  CHECK(reason_of("3/4", {3, 4}, 0) == "wrong value");
  CHECK(reason_of("3/4", {3, 4}, 3) == "wrong value");
  CHECK(reason_of("4/(3-3)", {3, 3, 4}, 4) == "division by zero");
  CHECK(reason_of("3+3", {3, 4}, 6) == "numbers differ");
  for (const char* refused :
       {"",      "3 4", "34",    "2(3)",  "3+",    "(3+4", "3+4)", "3**4",       "3//4",  "3×4", "3÷4", "03+4",
        "3.0+4", ".5",  "3+4=7", "3e0+4", "0x3+4", "３+4", "3,4",  "3\\times 4", "$3+4$", "3^4", "()",  "3;4"}) {
    INFO(refused);
    CHECK(judge(tagged(refused), {3, 4}, 7).outcome != Outcome::correct);
    if (std::string(refused) != "34") CHECK(reason_of(refused, {3, 4}, 7) == "not in the grammar");
  }
  CHECK(judge(tagged(std::string("3+4\0", 4)), {3, 4}, 7).reason == "not in the grammar");
  CHECK(judge(tagged(std::string("3\0+4", 4)), {3, 4}, 7).reason == "not in the grammar");
}

TEST_CASE("countdown verifier: a box may hold LaTeX operators and one trailing value") {
  const auto boxed = [](const std::string& answer) {
    return std::string(judge("\\boxed{" + answer + "}", {3, 4}, 12).reason);
  };
  CHECK(boxed("3 \\times 4") == "correct");
  CHECK(boxed("3\\cdot4") == "correct");
  CHECK(boxed("3 \\div 4") == "wrong value");
  CHECK(boxed("3 * 4 = 12") == "correct");
  CHECK(boxed("3 * 4 = 12.0") == "correct");
  CHECK(boxed("3 * 4 = -5") == "correct");  // the value is dropped, not judged
  CHECK(boxed("3 * 4 = 12 = 12") == "not in the grammar");
  CHECK(boxed("3 * 4 =") == "not in the grammar");
  CHECK(boxed("3 * 4 = x") == "not in the grammar");
  CHECK(boxed("12 = 3 * 4") == "not in the grammar");
  CHECK(boxed("3 \\timesx 4") == "not in the grammar");
  CHECK(boxed("3 \\frac{1}{4}") == "not in the grammar");
  CHECK(boxed("$3 * 4$") == "not in the grammar");
}

TEST_CASE("countdown verifier: limits count bytes, depth and bits, not time") {
  const auto nested = [](int depth) { return tagged(repeat("(", depth) + "5" + repeat(")", depth)); };
  CHECK(judge(nested(64), {5}, 5).outcome == Outcome::correct);
  CHECK(judge(nested(65), {5}, 5).reason == "answer nested too deep");
  CHECK(judge(nested(65), {5}, 5).verifier_error);
  CHECK(judge(tagged(repeat("-", 64) + "5"), {5}, 5).outcome == Outcome::correct);
  CHECK(judge(tagged(repeat("-", 65) + "5"), {5}, -5).verifier_error);
  CHECK(judge(tagged(repeat("(5)+", 100) + "(5)"), {5}, 505).reason == "numbers differ");  // ")" lowers the depth

  CHECK(judge(tagged("5" + std::string(1022, ' ') + "5"), {5}, 5).reason == "not in the grammar");
  CHECK(judge(tagged("5" + std::string(1023, ' ') + "5"), {5}, 5).reason == "answer too long");
  CHECK(judge(tagged("5" + std::string(100000, ' ')), {5}, 5).outcome == Outcome::correct);  // trimmed first

  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK(reason_of("9223372036854775807", {most}, most) == "correct");
  CHECK(reason_of("9223372036854775808", {most}, most) == "numbers differ");
  CHECK(reason_of("9223372036854775806+1", {most - 1, 1}, most) == "correct");
  CHECK(reason_of("9223372036854775807+1", {most, 1}, most) == "overflow");
  CHECK(reason_of("(9223372036854775807+1)-1", {most, 1, 1}, most) == "overflow");
  CHECK(reason_of("9223372036854775807*2/2", {most, 2, 2}, most) == "overflow");
  CHECK(reason_of("1/9223372036854775807/2", {1, most, 2}, 0) == "overflow");
  CHECK(reason_of("99999999999999999999999", {0}, 0) == "numbers differ");

  const std::string padding(kMaxScanned_bytes, 'x');
  CHECK(judge(padding + tagged("5"), {5}, 5).outcome == Outcome::correct);
  CHECK(judge(tagged("5") + padding.substr(tagged("5").size()), {5}, 5).outcome == Outcome::correct);
  CHECK(judge(tagged("5") + padding, {5}, 5).reason == "response too long");
  CHECK(judge(tagged("5") + padding, {5}, 5).verifier_error);
}

TEST_CASE("countdown verifier: ground truths are checked at load") {
  const CountdownVerifier verifier(Numbers::all);
  CHECK_NOTHROW(verifier.check_ground_truth({R"({"numbers":[3,4],"target":7})"}, "x:1"));
  CHECK_NOTHROW(verifier.check_ground_truth({R"( {"target" : -7, "numbers" : [0]} )"}, "x:1"));
  for (const std::string bad : {"",
                                "7",
                                "[]",
                                "{}",
                                "null",
                                R"({"numbers":[3,4]})",
                                R"({"target":7})",
                                R"({"numbers":[],"target":7})",
                                R"({"numbers":[3,4],"target":7,"x":1})",
                                R"({"numbers":[3,4],"target":"7"})",
                                R"({"numbers":[3,4.0],"target":7})",
                                R"({"numbers":[3,-4],"target":7})",
                                R"({"numbers":[3,[4]],"target":7})",
                                R"({"numbers":{"a":1},"target":7})",
                                R"({"numbers":[3,4],"target":[7]})",
                                R"({"numbers":[3,4],"numbers":[7],"target":7})",
                                R"({"numbers":[3,4],"target":7,"target":8})",
                                R"({"numbers":[3,4],"target":7}{})",
                                R"({"numbers":[3,4],"target":7)",
                                R"({"numbers":[3,4],"target":99999999999999999999})",
                                R"({"numbers":3,"target":7})",
                                R"({"numbers":[3,4],"target":null})",
                                R"([{"numbers":[3,4],"target":7}])",
                                R"({"numbers":[true],"target":1})"}) {
    INFO(bad);
    CHECK_THROWS_AS(verifier.check_ground_truth({bad}, "x:1"), qrl::base::Error);
    CHECK(judged(verifier, "<answer>3+4</answer>", bad).verifier_error);
  }
  CHECK_THROWS_AS(verifier.check_ground_truth({std::string(R"({"numbers":[3,4],"target":7})") + '\0' + "}"}, "x:1"),
                  qrl::base::Error);
  std::vector<std::int64_t> many(32, 1);
  CHECK_NOTHROW(verifier.check_ground_truth({truth_of(many, 1)}, "x"));
  many.push_back(1);
  CHECK_THROWS_AS(verifier.check_ground_truth({truth_of(many, 1)}, "x"), qrl::base::Error);
  try {
    verifier.check_ground_truth({"7"}, "train.jsonl:12");
    FAIL("accepted");
  } catch (const qrl::base::Error& error) {
    CHECK(error.exit_code() == 2);
    CHECK(std::string(error.what()).rfind("train.jsonl:12: expected", 0) == 0);
  }
}

TEST_CASE("countdown verifier: shipped tasks are usable") {
  const CountdownVerifier verifier(Numbers::all);
  const auto rows = read_rows(std::filesystem::path(QRL_SOURCE_DIR) / "datasets" / "countdown_cd3_test.jsonl");
  CHECK(rows.size() == 256);
  for (const json& row : rows) CHECK_NOTHROW(verifier.check_ground_truth({row["ground_truth"].dump()}, "cd3"));
}

TEST_CASE("countdown verifier: many megabytes of text cost only the searched tail") {
  const auto verifier = make_verifier(qrl::test::options_with("countdown"));
  const std::string truth = R"({"numbers":[5],"target":5})";
  for (const char* piece : {"<answer>", "</answer>", "\\boxed{", "{", "}", "<answer></answer", "\\boxed{}", "("}) {
    std::string text;
    while (text.size() < (std::size_t{8} << 20)) text += piece;
    INFO(piece);
    CHECK(judged(*verifier, text, truth).outcome == Outcome::no_answer);
    CHECK(judged(*verifier, text + "<answer>5</answer>", truth).outcome == Outcome::correct);
  }
}

TEST_CASE("countdown verifier: a ground truth nested a hundred thousand deep is unusable") {
  CHECK(judged(CountdownVerifier(Numbers::all), "<answer>1</answer>", std::string(100000, '[')).verifier_error);
}
