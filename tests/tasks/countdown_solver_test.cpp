#include <limits>
#include <regex>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "support/catch.h"
#include "support/files.h"
#include "tasks/countdown/solver.h"
#include "tasks/countdown/verifier.h"
#include "tasks/support.h"

using qrl::tasks::Numbers;
using qrl::tasks::solve_countdown;
namespace fs = std::filesystem;

namespace {

using Integers = std::vector<std::int64_t>;

struct SolverFraction {
  std::int64_t above, below;
};

/// Tries every order of joining two of the numbers, without pruning; the solver must agree.
bool reaches(const std::vector<SolverFraction>& numbers, std::int64_t target, bool all) {
  const auto is_target = [target](const SolverFraction& f) { return f.above == target * f.below; };
  if (numbers.size() == 1 && is_target(numbers[0])) return true;
  if (!all && std::any_of(numbers.begin(), numbers.end(), is_target)) return true;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    for (std::size_t j = 0; j < numbers.size(); ++j) {
      if (i == j) continue;
      const SolverFraction a = numbers[i], b = numbers[j];
      std::vector<SolverFraction> results = {{a.above * b.below + b.above * a.below, a.below * b.below},
                                             {a.above * b.below - b.above * a.below, a.below * b.below},
                                             {a.above * b.above, a.below * b.below}};
      if (b.above != 0) results.push_back({a.above * b.below, a.below * b.above});
      for (const SolverFraction& result : results) {
        std::vector<SolverFraction> rest = {result};
        for (std::size_t k = 0; k < numbers.size(); ++k) {
          if (k != i && k != j) rest.push_back(numbers[k]);
        }
        if (reaches(rest, target, all)) return true;
      }
    }
  }
  return false;
}

bool reaches(const Integers& numbers, std::int64_t target, Numbers use) {
  std::vector<SolverFraction> fractions;
  for (const std::int64_t number : numbers) fractions.push_back({number, 1});
  return reaches(fractions, target, use == Numbers::all);
}

/// Returns whether the verifier accepts the solution.
bool is_right(const std::string& solution, const Integers& numbers, std::int64_t target, Numbers use) {
  std::string list;
  for (const std::int64_t number : numbers) list += (list.empty() ? "" : ",") + std::to_string(number);
  const std::string truth = "{\"numbers\":[" + list + "],\"target\":" + std::to_string(target) + "}";
  const auto verdict =
      qrl::test::judged(qrl::tasks::CountdownVerifier(use), "<answer>" + solution + "</answer>", truth);
  return verdict.outcome == qrl::tasks::Outcome::correct;
}

void check_solved(const Integers& numbers, std::int64_t target, Numbers use, bool solvable) {
  CAPTURE(numbers, target, use == Numbers::all);
  const auto solution = solve_countdown(numbers, target, use);
  REQUIRE(solution.has_value() == solvable);
  if (solution) REQUIRE(is_right(*solution, numbers, target, use));
}

struct Example {
  std::string where;
  Integers numbers;
  std::int64_t target = 0;
};

Integers integers_in(const std::string& text) {
  static const std::regex digits(R"(\d+)");
  Integers numbers;
  for (std::sregex_iterator it(text.begin(), text.end(), digits), end; it != end; ++it)
    numbers.push_back(std::stoll(it->str()));
  return numbers;
}

/// Returns the Countdown tasks in a text: "3 8 12 = 36", {"numbers":[3,8,12],"target":36}, "make 36 from 3, 8 and 12".
/// A line that says "no solution" has none.
std::vector<Example> examples_in(const std::string& text, const std::string& file) {
  static const std::regex prompt(R"((?:^|[^\w.])((?:\d+ ){1,5}\d+) = (\d+))");
  static const std::regex truth(R"re(\\?"numbers\\?": ?\[([\d, ]+)\], ?\\?"target\\?": ?(\d+))re");
  static const std::regex words(R"((\d+) from (\d+(?:, \d+)* and \d+))");
  std::vector<Example> examples;
  std::istringstream lines(text);
  std::int64_t line_number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++line_number;
    if (line.find("no solution") != std::string::npos) continue;
    for (const std::regex* pattern : {&prompt, &truth, &words}) {
      for (std::sregex_iterator it(line.begin(), line.end(), *pattern), end; it != end; ++it) {
        const bool target_first = pattern == &words;
        examples.push_back({file + ":" + std::to_string(line_number), integers_in((*it)[target_first ? 2 : 1]),
                            std::stoll((*it)[target_first ? 1 : 2])});
      }
    }
  }
  return examples;
}

std::vector<Example> examples_of_the_documents() {
  const fs::path root = QRL_SOURCE_DIR;
  std::vector<Example> examples;
  const auto read = [&](const fs::path& file) {
    for (Example& example : examples_in(qrl::test::read_file(file), file.lexically_relative(root).string()))
      examples.push_back(std::move(example));
  };
  read(root / "README.md");
  for (const char* folder : {"docs", "src", "apps", "recipes"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      const bool text = extension == ".md" || extension == ".h" || extension == ".cpp" || extension == ".yaml";
      if (entry.is_regular_file() && text) read(entry.path());
    }
  }
  return examples;
}

}  // namespace

TEST_CASE("countdown solver: finds solutions through fractions, zeros and negative values") {
  check_solved({3, 8, 12}, 36, Numbers::all, true);
  check_solved({8, 8, 3, 3}, 24, Numbers::all, true);  // 8/(3-8/3)
  check_solved({1, 5, 5, 5}, 24, Numbers::all, true);  // 5*(5-1/5)
  check_solved({0, 5}, 0, Numbers::all, true);
  check_solved({0, 0, 5, 7}, 0, Numbers::all, true);
  check_solved({3, 7}, -4, Numbers::all, true);
  check_solved({7}, 7, Numbers::all, true);
  check_solved({3, 8, 12}, 24, Numbers::all, false);
  check_solved({3, 8, 12}, 24, Numbers::subset, true);
  check_solved({3, 7, 12}, 36, Numbers::all, false);
  check_solved({1, 2, 3, 4, 5, 6}, 1'000'003, Numbers::all, false);
  check_solved({25, 50, 75, 100, 3, 6}, 952, Numbers::all, true);
  check_solved({4'000'000'000, 4'000'000'000, 4'000'000'000}, 1, Numbers::all, false);  // exceeds 64 bits
  check_solved({5, 7}, std::numeric_limits<std::int64_t>::min(), Numbers::all, false);
  CHECK_THROWS_AS(solve_countdown(Integers(7, 1), 7, Numbers::all), qrl::base::Error);
  CHECK_THROWS_AS(solve_countdown(Integers(), 7, Numbers::all), qrl::base::Error);
}

TEST_CASE("countdown solver: equals exhaustive search") {
  qrl::base::RandomStream random(11, qrl::base::RandomPurpose::generator, 1);
  int num_solvable = 0;
  constexpr int kTasks = 400;
  for (int i = 0; i < kTasks; ++i) {
    Integers numbers;
    for (std::int64_t k = random.between(1, 4); k > 0; --k) numbers.push_back(random.between(0, 12));
    const std::int64_t target = random.between(-5, 60);
    for (const Numbers use : {Numbers::all, Numbers::subset}) {
      const bool solvable = reaches(numbers, target, use);
      num_solvable += solvable ? 1 : 0;
      check_solved(numbers, target, use, solvable);
    }
  }
  CHECK(num_solvable > kTasks / 4);
  CHECK(num_solvable < kTasks * 7 / 4);
}

TEST_CASE("countdown solver: equals exhaustive search on five numbers") {
  const Integers numbers = {2, 3, 5, 7, 11};
  for (const std::int64_t target : {983, 989, 997})
    check_solved(numbers, target, Numbers::all, reaches(numbers, target, Numbers::all));
}

TEST_CASE("countdown examples: every task in documents, help and errors has a solution") {
  CHECK(examples_in("say 3 8 12 = 36 or {\"numbers\": [3, 8], \"target\": 24}\nmake 24 from 3, 8 and 12", "x").size() ==
        3);
  CHECK(examples_in("{\\\"numbers\\\":[3,8,12],\\\"target\\\":36}", "x").size() == 1);
  CHECK(examples_in("3 8 12 = 24 has no solution", "x").empty());
  const auto examples = examples_of_the_documents();
  CHECK(examples.size() >= 8);
  for (const Example& example : examples) {
    INFO(example.where);
    CHECK(solve_countdown(example.numbers, example.target, Numbers::all).has_value());
  }
}
