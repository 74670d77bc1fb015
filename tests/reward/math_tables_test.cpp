// Tests the tables of the math verifier: each rule has an effect, and a unit, a function and a marker are one row each.
#include <string>
#include <vector>

#include "reward/math/equal.h"
#include "reward/math/extract.h"
#include "reward/math/lexer.h"
#include "reward/math/math_verifier.h"
#include "support/catch.h"

using namespace qrl::reward::math;

namespace {

/// Returns whether two texts are the same answer by these rules.
bool same(const std::string& gold, const std::string& answer, std::span<const Rule> rules,
          const Vocabulary& vocabulary = default_vocabulary()) {
  Tree g = parse(gold, Comma::thousands, vocabulary), a = parse(answer, Comma::thousands, vocabulary);
  if (!g.root || !a.root) return false;
  const Answer x = lower(g, vocabulary, rules), y = lower(a, vocabulary, rules);
  return Equality(vocabulary).run(x, y);
}

std::string utf8(char32_t c) {
  if (c < 0x800) return {static_cast<char>(0xc0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3f))};
  return {static_cast<char>(0xe0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 0x3f)),
          static_cast<char>(0x80 | (c & 0x3f))};
}

}  // namespace

TEST_CASE("math rules: leaving out any lowering rule changes the verdict on its example") {
  struct Example {
    const char* rule;
    const char* gold;
    bool equal;  ///< with the rule
  };
  // In table order; the answer is the rule's example.
  const Example kExamples[] = {
      {"combination", "120", true},
      {"combination, scripts in front", "120", true},
      {"named point", "(1,2)", true},
      {"words for the reals", "\\mathbb{R}", true},
      {"unit", "5\\text{ m}", false},
      {"capitals in a row", "HHT", false},
      {"membership", "y \\in \\{1,2\\}", false},
      {"domain", "x^2", true},
      {"domain within braces", "2k\\pi", true},
  };
  const std::span<const Rule> rules = default_rules();
  REQUIRE(rules.size() == std::size(kExamples));
  for (std::size_t k = 0; k < rules.size(); ++k) {
    INFO(rules[k].name);
    CHECK(rules[k].name == kExamples[k].rule);
    std::vector<Rule> others(rules.begin(), rules.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
    const std::string example(rules[k].example);
    CHECK(same(kExamples[k].gold, example, rules) == kExamples[k].equal);
    CHECK(same(kExamples[k].gold, example, others) != kExamples[k].equal);
  }
}

TEST_CASE("math tables: a unit, a function and a marker are one row each") {
  const std::span<const Row> known = default_rows();
  std::vector<Row> rows(known.begin(), known.end());
  rows.push_back({WordClass::name, TokenType::function, "versin"});
  rows.push_back({WordClass::unit, TokenType::word, "fathom", 'l', 1.8288L});
  rows.push_back({WordClass::noun, TokenType::word, "risposta"});
  const Vocabulary more(rows);
  const std::span<const Rule> rules = default_rules();
  CHECK(same("1.8288\\text{ m}", "1\\text{ fathom}", rules, more));
  CHECK_FALSE(same("1.8288\\text{ m}", "1\\text{ fathom}", rules));
  CHECK_FALSE(same("1\\text{ m}", "1\\text{ fathom}", rules, more));
  CHECK(same("\\versin x", "\\versin(x)", rules, more));
  CHECK_FALSE(same("\\versin x", "\\versin(x)", rules));
  CHECK_FALSE(same("\\versin x", "\\versin y", rules, more));

  const auto found = [](const Vocabulary& vocabulary) {
    return extract("Set 3.\nRisposta: 42", Profile::answer_is, vocabulary);
  };
  CHECK(found(default_vocabulary()).empty());
  REQUIRE_FALSE(found(more).empty());
  CHECK(found(more)[0] == "42");
}

TEST_CASE("math characters: those with a meaning by form are expanded") {
  CHECK(normalized("5²") == "5^{2}");
  CHECK(normalized("10⁻⁵") == "10^{-5}");
  CHECK(normalized("a₁₂") == "a_{12}");
  CHECK(normalized("1½") == "1\\frac{1}{2}");
  CHECK(normalized("√12") == "\\sqrt 12");
  CHECK(normalized("ｘ＝８５") == "x=85");
  CHECK(normalized("\xff\x80") == "\xff\x80");
  CHECK(normalized("é") == "é");
}

TEST_CASE("math characters: every superscript, fraction, Roman and circled number") {
  const auto check = [](char32_t c, const std::string& written) {
    INFO(static_cast<unsigned>(c));
    CHECK(normalized(utf8(c)) == written);
  };
  // A space represents a character that is unassigned or belongs to another block.
  constexpr std::string_view kSuperscripts = "0   456789+-=()n", kSubscripts = "0123456789+-=() aeox hklmnpst";
  check(0x2071, "^{i}");
  check(0xb9, "^{1}");
  check(0xb2, "^{2}");
  check(0xb3, "^{3}");
  for (char32_t k = 0; k < kSuperscripts.size(); ++k)
    if (kSuperscripts[k] != ' ') check(0x2070 + k, std::string("^{") + kSuperscripts[k] + "}");
  for (char32_t k = 0; k < kSubscripts.size(); ++k)
    if (kSubscripts[k] != ' ') check(0x2080 + k, std::string("_{") + kSubscripts[k] + "}");

  constexpr int kFractions[][2] = {{1, 7}, {1, 9}, {1, 10}, {1, 3}, {2, 3}, {1, 5}, {2, 5}, {3, 5},
                                   {4, 5}, {1, 6}, {5, 6},  {1, 8}, {3, 8}, {5, 8}, {7, 8}};
  const auto fraction = [](int above, int below) {
    return "\\frac{" + std::to_string(above) + "}{" + std::to_string(below) + "}";
  };
  for (char32_t k = 0; k < std::size(kFractions); ++k) check(0x2150 + k, fraction(kFractions[k][0], kFractions[k][1]));
  check(0xbc, fraction(1, 4));
  check(0xbd, fraction(1, 2));
  check(0xbe, fraction(3, 4));
  check(0x215f, "\\frac{1}{}");
  check(0x2189, fraction(0, 3));

  constexpr int kRoman[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 50, 100, 500, 1000};
  for (char32_t k = 0; k < std::size(kRoman); ++k) {
    check(0x2160 + k, std::to_string(kRoman[k]));
    check(0x2170 + k, std::to_string(kRoman[k]));
  }
  constexpr int kLargeRoman[] = {1000, 5000, 10000, 0, 0, 6, 50, 50000, 100000};
  for (char32_t k = 0; k < std::size(kLargeRoman); ++k)
    if (kLargeRoman[k] != 0) check(0x2180 + k, std::to_string(kLargeRoman[k]));

  check(0x24ea, "0");
  for (char32_t k = 0; k < 20; ++k) check(0x2460 + k, std::to_string(k + 1));
  for (char32_t k = 0; k < 15; ++k) check(0x3251 + k, std::to_string(k + 21));
  for (char32_t k = 0; k < 15; ++k) check(0x32b1 + k, std::to_string(k + 36));
  for (const char32_t first : {0x2776, 0x2780, 0x278a})
    for (char32_t k = 0; k < 10; ++k) check(first + k, std::to_string(k + 1));
}
