#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "reward/math/math_verifier.h"
#include "support/catch.h"
#include "support/processor_time.h"

using namespace qrl::reward;

namespace {

Verdict judge_form(const std::string& answer, const std::string& gold, math::RequiredForm form) {
  return math::MathVerifier(math::Profile::boxed, form)
      .judge("So it is \\boxed{" + answer + "}.", math::read_gold(gold));
}

}  // namespace

TEST_CASE("answer_form value: a computed number is accepted in any notation") {
  constexpr std::pair<const char*, const char*> kNumbers[] = {
      {"85", "85"},
      {"-5", "-5"},
      {"+5", "5"},
      {"(85)", "85"},
      {"1,234", "1234"},
      {"1{,}234", "1234"},
      {"1\\,234", "1234"},
      {"0.50", "0.5"},
      {"2,5", "2.5"},
      {"0.\\overline{3}", "\\frac13"},
      {"50\\%", "0.5"},
      {"33\\frac13\\%", "\\frac13"},
      {"3/2", "1.5"},
      {"-\\frac{3}{4}", "-0.75"},
      {"\\frac{-3}{4}", "-0.75"},
      {"\\frac{3}{-4}", "-0.75"},
      {"1\\frac12", "1.5"},
      {"1 1/2", "1.5"},
      {"1.5e6", "1500000"},
      {"-1.5\\cdot 10^{-3}", "-0.0015"},
      {"1.5 \\times 10^6 \\text{ km}", "1500000"},
      {"204_5", "54"},
      {"twenty-five", "25"},
      {"5 (five)", "5"},
      {"x = 85", "85"},
      {"85 apples", "85"},
      {"\\$85", "85"},
      {"(B) 85", "85"},
      {"90^\\circ", "90"},
      {"5\\text{ m}", "500 cm"},
      {"\\frac{5}{12}\\text{ hours}", "25 minutes"},
      {"2:3", "2:3"},
      {"3 \\pmod 7", "3 \\pmod 7"},
      {"10 \\pmod 7", "3 \\pmod 7"},
      {"\\frac13 \\approx 0.333", "\\frac13"},
      {"25+60 = 85", "85"},
      {"x = 25+60 = 85", "85"},
  };
  for (const auto& [answer, gold] : kNumbers) {
    CAPTURE(answer);
    CHECK(judge_form(answer, gold, math::RequiredForm::value).outcome == Outcome::correct);
  }
}

TEST_CASE("answer_form value: a formula without remaining rational arithmetic is accepted") {
  constexpr std::pair<const char*, const char*> kFormulas[] = {
      {"3\\sqrt 2", "\\sqrt{18}"},
      {"1+\\sqrt 2", "\\sqrt2+1"},
      {"2\\pi", "2\\pi"},
      {"\\frac{3\\pi}{4}", "0.75\\pi"},
      {"\\frac{\\sqrt2}{2}", "\\frac1{\\sqrt2}"},
      {"\\frac{1+\\sqrt5}{2}", "\\frac{\\sqrt5+1}2"},
      {"3+4i", "3+4i"},
      {"\\pm 3", "\\pm 3"},
      {"x+1", "1+x"},
      {"(x+1)^2", "x^2+2x+1"},
      {"2(x+1)+1", "2x+3"},
      {"\\frac{n(n+1)}{2}", "n(n+1)/2"},
      {"y = 2x+3", "y = 2x+3"},
      {"2 < x < 5", "(2,5)"},
      {"(1, \\frac12)", "(1, 0.5)"},
      {"\\{2, 3\\}", "\\{3, 2\\}"},
      {"[2,3] \\cup [4,5]", "[2,3] \\cup [4,5]"},
      {"\\begin{pmatrix}2\\\\3\\end{pmatrix}", "\\begin{pmatrix}2\\\\3\\end{pmatrix}"},
      {"2 apples and 3 pears", "2 apples and 3 pears"},
      {"Evelyn", "Evelyn"},
  };
  for (const auto& [answer, gold] : kFormulas) {
    CAPTURE(answer);
    CHECK(judge_form(answer, gold, math::RequiredForm::value).outcome == Outcome::correct);
  }
}

TEST_CASE("answer_form value: refuses a right answer with a remaining operation, any accepts it") {
  constexpr std::pair<const char*, const char*> kLeft[] = {
      {"25+60", "85"},
      {"(25+60)", "85"},
      {"(7-4)*3", "9"},
      {"85+0", "85"},
      {"-(-5)", "5"},
      {"7,000,000+1", "7000001"},
      {"0.5+0.25", "0.75"},
      {"85/1", "85"},
      {"170/2", "85"},
      {"170:2", "85"},
      {"6/4", "1.5"},
      {"1\\frac24", "1.5"},
      {"\\frac{1.5}{3}", "0.5"},
      {"1/2/3", "\\frac16"},
      {"25\\cdot 100", "2500"},
      {"99999999999\\cdot 99999999999", "9999999999800000000001"},
      {"(20+30)\\%", "0.5"},
      {"2^{10}", "1024"},
      {"10^6", "1000000"},
      {"5!", "120"},
      {"\\binom52", "10"},
      {"\\sqrt{16}", "4"},
      {"\\sqrt2\\sqrt2", "2"},
      {"\\sqrt{4+4}", "2\\sqrt2"},
      {"\\log_2 8", "3"},
      {"\\sin 30^\\circ", "\\frac12"},
      {"|-5|", "5"},
      {"\\gcd(4,6)", "2"},
      {"i^2", "-1"},
      {"10 \\bmod 7", "3"},
      {"2\\cdot 3\\sqrt 2", "6\\sqrt2"},
      {"\\frac{4\\pi}{2}", "2\\pi"},
      {"x+1+2", "x+3"},
      {"2x\\cdot 3", "6x"},
      {"x = 25+60", "85"},
      {"y = 2x+1+2", "y = 2x+3"},
      {"1+1 < x < 5", "2 < x < 5"},
      {"\\{1+1, 3\\}", "\\{2, 3\\}"},
      {"(1, 1+1)", "(1, 2)"},
      {"1, 1+1", "1, 2"},
      {"2+3 \\text{ cm}", "5 cm"},
      {"(B) 25+60", "85"},
      {"\\text{25+60}", "85"},
  };
  for (const auto& [answer, gold] : kLeft) {
    CAPTURE(answer);
    CHECK(judge_form(answer, gold, math::RequiredForm::any).outcome == Outcome::correct);
    const Verdict verdict = judge_form(answer, gold, math::RequiredForm::value);
    CHECK(verdict.outcome == Outcome::wrong);
    CHECK(verdict.reason == "operation left to do");
    CHECK_FALSE(verdict.verifier_error);
  }
  CHECK(judge_form("25+61", "85", math::RequiredForm::value).reason == "wrong value");
  // An equation without a value leaves the work to the reader; one that ends in dots is unfinished.
  CHECK(judge_form("96 - 79 = x", "17", math::RequiredForm::any).outcome == Outcome::correct);
  CHECK(judge_form("96 - 79 = x", "17", math::RequiredForm::value).reason == "operation left to do");
  for (const math::RequiredForm form : {math::RequiredForm::any, math::RequiredForm::value}) {
    CHECK(judge_form("96 - 79 = ...", "17", form).outcome != Outcome::correct);
    CHECK(judge_form("96 - 79 = \\ldots", "17", form).outcome != Outcome::correct);
    CHECK(judge_form("96 - 79 = 17", "17", form).outcome == Outcome::correct);
    CHECK(judge_form("17 = 96 - 79", "17", form).outcome == Outcome::correct);
    CHECK(judge_form("42 = x", "42", form).outcome == Outcome::correct);
  }
}

TEST_CASE("answer_form value: for a gold answer with a remaining operation, its form and its value are accepted") {
  const auto counts = [](const char* answer, const char* gold) {
    return judge_form(answer, gold, math::RequiredForm::value).outcome == Outcome::correct;
  };
  CHECK(counts("2^{10}", "2^{10}"));
  CHECK(counts("x = 2^{10}", "2^{10}"));
  CHECK(counts("1024", "2^{10}"));
  CHECK(counts("3 \\times 2^{10}", "2^{10} * 3"));
  CHECK(counts("60+25", "25+60"));
  CHECK(counts("2^{2015}", "2^{2015}"));
  CHECK_FALSE(counts("4^5", "2^{10}"));
  CHECK_FALSE(counts("2\\cdot 2^{2014}", "2^{2015}"));
  CHECK_FALSE(counts("24+61", "25+60"));
}

TEST_CASE("answer_form value: accepts real models' answers, and every gold answer for itself") {
  const auto folder = qrl::test::shipped_data() / "verifier";
  const auto rows_of = [&](const char* name) {
    std::vector<nlohmann::json> rows;
    std::ifstream in(folder / name);
    for (std::string line; std::getline(in, line);) rows.push_back(nlohmann::json::parse(line));
    return rows;
  };
  const math::MathVerifier value(math::Profile::automatic, math::RequiredForm::value);
  const auto outputs = rows_of("real_outputs_excerpt.jsonl");
  REQUIRE(outputs.size() == 80);
  for (const auto& row : outputs) {
    INFO(row["id"]);
    const Verdict verdict =
        value.judge(row["output"].get<std::string>(), math::read_gold(row["gold"].get<std::string>()));
    CHECK((verdict.outcome == Outcome::correct) == row["expected"].get<bool>());
  }
  for (const auto& row : rows_of("math_kinds.jsonl")) {
    const std::string gold = row["gold"];
    INFO(gold);
    CHECK(math::is_worked_out_as(math::Reading(gold), math::Reading(gold)));
  }
}

TEST_CASE("answer_form value: reads a long and deep answer in bounded time") {
  std::string deep = "\\sqrt{2}";
  for (int i = 0; i < 15; ++i) deep = "\\sqrt{" + deep + "+\\sqrt{3}}";
  std::string wide = "x";
  for (int i = 0; i < 300; ++i) wide += "+\\sqrt{" + deep + "}";
  CHECK(math::is_worked_out_as(math::Reading("0"), math::Reading(deep)));
  CHECK_FALSE(math::is_worked_out_as(math::Reading("0"), math::Reading(deep + "+1+2")));
  std::string many = "0";
  for (int i = 0; i < 600; ++i) many += ",\\sqrt2";
  for (const std::string& text :
       {deep, wide.substr(0, 4000), many, std::string(90, '(') + "1+1" + std::string(90, ')')}) {
    const auto read = [&] { math::is_worked_out_as(math::Reading(text), math::Reading(text)); };
    CHECK(qrl::test::seconds_on_xeon(read) < 0.05);  // measured: below 0.005
  }
}

// The reward hack of issue 25: a policy copies the question's sum into the box.
