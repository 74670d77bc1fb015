#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "data/jsonl.h"
#include "support/refusal.h"
#include "tasks/countdown/generator.h"
#include "tasks/generator.h"
#include "tasks/support.h"

using namespace qrl::tasks;
using nlohmann::json;
using qrl::test::refusal_of;
using qrl::test::says;

namespace {

CountdownRanges ranges_of(std::int64_t min_numbers, std::int64_t max_numbers, std::int64_t max_number = 20,
                          std::int64_t max_target = 100) {
  CountdownRanges ranges;
  ranges.min_numbers = min_numbers;
  ranges.max_numbers = max_numbers;
  ranges.max_number = max_number;
  ranges.max_target = max_target;
  return ranges;
}

/// Represents p / q modulo the prime 2^61 − 1, where fractions of any size stay exact. False equality would need a
/// difference that is a multiple of the prime; a wrapped result differs by a multiple of 2^64.
struct Fraction {
  std::int64_t p, q;
};
constexpr std::int64_t kPrime = (std::int64_t{1} << 61) - 1;
std::int64_t mod(__int128 value) { return static_cast<std::int64_t>((value % kPrime + kPrime) % kPrime); }
std::int64_t times(std::int64_t a, std::int64_t b) { return mod(static_cast<__int128>(a) * b); }

/// Returns whether the values can be joined to `target` with + − * /, by exhaustive search.
bool solvable(const std::vector<Fraction>& values, std::int64_t target) {
  if (values.size() == 1) return values[0].p == times(mod(target), values[0].q);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = 0; j < values.size(); ++j) {
      if (i == j) continue;
      std::vector<Fraction> rest;
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (k != i && k != j) rest.push_back(values[k]);
      }
      const Fraction a = values[i], b = values[j];
      const std::int64_t pq = times(a.p, b.q), qp = times(a.q, b.p), qq = times(a.q, b.q);
      for (const Fraction& value :
           {Fraction{mod(__int128{pq} + qp), qq}, {mod(__int128{pq} - qp), qq}, {times(a.p, b.p), qq}, {pq, qp}}) {
        if (value.q == 0) continue;
        rest.push_back(value);
        if (solvable(rest, target)) return true;
        rest.pop_back();
      }
    }
  }
  return false;
}

bool solvable(const CountdownTask& task) {
  std::vector<Fraction> values;
  for (const std::int64_t number : task.numbers) values.push_back({mod(number), 1});
  return solvable(values, task.target);
}

/// Returns the value of an expression of integers, + − * / and parentheses, read from `at`. Every division must be
/// exact.
std::int64_t evaluate(const std::string& text, std::size_t& at, std::multiset<std::int64_t>& numbers, int level = 0) {
  if (level == 2) {
    if (text.at(at) == '(') {
      const std::int64_t inside = evaluate(text, ++at, numbers);
      REQUIRE(text.at(at++) == ')');
      return inside;
    }
    std::size_t width = 0;
    const std::int64_t number = std::stoll(text.substr(at), &width);
    at += width;
    numbers.insert(number);
    return number;
  }
  std::int64_t value = evaluate(text, at, numbers, level + 1);
  while (at < text.size() && std::string(level == 0 ? "+-" : "*/").find(text[at]) != std::string::npos) {
    const char op = text[at++];
    const std::int64_t right = evaluate(text, at, numbers, level + 1);
    if (op == '/') REQUIRE(value % right == 0);
    value = op == '+' ? value + right : op == '-' ? value - right : op == '*' ? value * right : value / right;
  }
  return value;
}

}  // namespace

TEST_CASE("brute-force oracle: separates solvable from unsolvable tasks") {
  CHECK(solvable({{3, 3, 8, 8}, 24}));
  CHECK_FALSE(solvable({{1, 1, 1}, 24}));
}

TEST_CASE("countdown generator: tasks are solvable, in range and of their split") {
  for (const Split split : {Split::train, Split::held_out}) {
    for (std::uint64_t i = 0; i < 400; ++i) {
      const CountdownTask task = generate_countdown(ranges_of(3, 4, 20, 100), 1, split, i);
      INFO(countdown_prompt(task));
      REQUIRE(split_of(task) == split);
      REQUIRE((task.numbers.size() == 3 || task.numbers.size() == 4));
      for (const std::int64_t number : task.numbers) REQUIRE((number >= 1 && number <= 20));
      REQUIRE((task.target >= 1 && task.target <= 100));
      REQUIRE(solvable(task));
    }
  }
}

TEST_CASE("countdown generator: a task depends only on ranges, seed, split and index") {
  const CountdownRanges ranges = ranges_of(3, 3);
  std::vector<CountdownTask> forward, backward;
  for (std::uint64_t i = 0; i < 100; ++i) forward.push_back(generate_countdown(ranges, 5, Split::train, i));
  for (std::uint64_t i = 100; i-- > 0;) backward.push_back(generate_countdown(ranges, 5, Split::train, i));
  std::reverse(backward.begin(), backward.end());
  CHECK(forward == backward);
  int differ_by_seed = 0, differ_by_index = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    differ_by_seed += !(generate_countdown(ranges, 6, Split::train, i) == forward[i]);
    differ_by_index += !(forward[(i + 1) % 100] == forward[i]);
  }
  CHECK(differ_by_seed > 90);
  CHECK(differ_by_index > 90);
  CHECK(generate_countdown(ranges, 5, Split::train, std::uint64_t{1} << 62).numbers.size() == 3);
}

TEST_CASE("countdown split: equals an independent implementation, holds out a quarter, ignores order") {
  std::ifstream rows(qrl::test::shipped_data() / "golden" / "countdown" / "splits.jsonl");
  int num_rows = 0, num_held_out = 0;
  for (std::string line; std::getline(rows, line); ++num_rows) {
    const json row = json::parse(line);
    CountdownTask task{row["numbers"], row["target"]};
    const Split want = row["held_out"] ? Split::held_out : Split::train;
    CHECK(split_of(task) == want);
    std::reverse(task.numbers.begin(), task.numbers.end());
    CHECK(split_of(task) == want);
    num_held_out += want == Split::held_out;
  }
  CHECK(num_rows == 200);
  CHECK(num_held_out > 0);
  int held_out = 0;
  for (std::int64_t i = 0; i < 8000; ++i) held_out += split_of({{i, 7, 3}, 24}) == Split::held_out;
  CHECK(std::abs(held_out - 2000) < 136);  // 3.5 standard deviations of a fair quarter
}

TEST_CASE("countdown generator: ranges with too few tasks are input errors") {
  const Generator& countdown = *generators().find("countdown");
  qrl::config::ParamValues few;
  const std::map<std::string, std::int64_t> ranges = {
      {"min_numbers", 2}, {"max_numbers", 2}, {"max_number", 3}, {"max_target", 9}};
  for (const qrl::config::Param& key : countdown.params) few.set(key, ranges.at(key.name));
  CHECK(says(refusal_of([&] { held_out_tasks(countdown, few, 0, 1000); }), "different held-out tasks"));
  CHECK(says(refusal_of([] {
               generate_countdown(ranges_of(1, 1, 1, 1), 0,
                                  split_of({{1}, 1}) == Split::train ? Split::held_out : Split::train, 0);
             }),
             "widen the ranges"));
  CHECK(says(refusal_of([] { generate_countdown(ranges_of(4, 3), 0, Split::train, 0); }), "min_numbers"));
  CHECK(says(refusal_of([] { generate_countdown(ranges_of(0, 3), 0, Split::train, 0); }), "min_numbers"));
  CHECK(says(refusal_of([] { generate_countdown(ranges_of(3, 3, 0), 0, Split::train, 0); }), "max_number"));
}

TEST_CASE("countdown generator: numbers of any size never overflow into a target") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto task = generate_countdown(ranges_of(2, 4, kMost, kMost), 2, Split::train, i);
    INFO(countdown_ground_truth(task));
    REQUIRE(task.target >= 1);
    REQUIRE(solvable(task));
  }
}

TEST_CASE("countdown generator: prompt, ground truth and rows agree") {
  const CountdownTask task{{3, 8, 12}, 36};
  CHECK(countdown_prompt(task) == "3 8 12 = 36\n");
  CHECK(countdown_ground_truth(task) == R"({"numbers":[3,8,12],"target":36})");
  const qrl::test::TempDir dir;
  const std::vector<CountdownTask> tasks = {task, {{1, 1}, 2}};
  std::vector<GeneratedTask> written;
  for (const CountdownTask& t : tasks) written.push_back({countdown_prompt(t), countdown_ground_truth(t)});
  std::ofstream(dir / "x.jsonl") << tasks_jsonl(written, "countdown");
  const auto rows = qrl::data::read_prompt_file(dir / "x.jsonl");
  REQUIRE(rows.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(rows[i].prompt == countdown_prompt(tasks[i]));
    CHECK(rows[i].ground_truth == countdown_ground_truth(tasks[i]));
    CHECK(rows[i].data_source == "countdown");
  }
}

TEST_CASE("countdown demonstrations: searches with true arithmetic, labels and numbers") {
  const auto read_number = [](const std::string& text, std::size_t& at) {
    std::size_t width = 0;
    const std::int64_t number = std::stoll(text.substr(at), &width);
    at += width;
    return number;
  };
  int num_correct = 0;
  constexpr int kDemonstrations = 2000;
  for (std::uint64_t i = 0; i < kDemonstrations; ++i) {
    const auto [task, response] = demonstrate_countdown(ranges_of(3, 4), 9, i);
    INFO(countdown_prompt(task) << response);
    REQUIRE(split_of(task) == Split::train);
    const std::multiset<std::int64_t> given(task.numbers.begin(), task.numbers.end());
    std::size_t at = 0;
    std::int64_t value = 0;
    bool claimed = false;
    int num_attempts = 0;
    while (response.compare(at, 8, "<answer>") != 0) {  // "6*2=12-4=8~40?"
      REQUIRE_FALSE(claimed);                           // a search that succeeded ends
      value = read_number(response, at);
      std::multiset<std::int64_t> used = {value};
      while (response.at(at) != '~') {
        const char op = response.at(at++);
        const std::int64_t right = read_number(response, at);
        used.insert(right);
        if (op == '/') REQUIRE(value % right == 0);
        value = op == '+' ? value + right : op == '-' ? value - right : op == '*' ? value * right : value / right;
        REQUIRE(response.at(at++) == '=');
        REQUIRE(read_number(response, at) == value);
        REQUIRE((value >= 1 && value <= 99));
      }
      REQUIRE(used == given);
      REQUIRE(read_number(response, ++at) == task.target);
      claimed = response.at(at++) == '!';
      REQUIRE(response[at - 1] == (value == task.target ? '!' : '?'));
      ++num_attempts;
    }
    REQUIRE((num_attempts >= 1 && num_attempts <= 8));
    const std::size_t end = response.find("</answer>");
    REQUIRE(end == response.size() - 9);
    const std::string expression = response.substr(at + 8, end - at - 8);
    std::multiset<std::int64_t> used;
    std::size_t read = 0;
    REQUIRE(evaluate(expression, read, used) == value);  // of the last attempt, right or wrong
    REQUIRE(read == expression.size());
    REQUIRE(used == given);
    num_correct += claimed;
  }
  CHECK(num_correct > kDemonstrations / 2);  // about six in ten: 0.3 / (0.3 + 0.7 · 0.3)
  CHECK(num_correct < kDemonstrations * 7 / 10);
  const CountdownRanges ranges = ranges_of(3, 3);
  CHECK(demonstrate_countdown(ranges, 9, 4).response == demonstrate_countdown(ranges, 9, 4).response);
  CHECK(demonstrate_countdown(ranges, 9, 4).response != demonstrate_countdown(ranges, 10, 4).response);
}

TEST_CASE("countdown files: shipped real tasks have the form of generated ones") {
  const auto rows =
      qrl::data::read_prompt_file(std::filesystem::path(QRL_SOURCE_DIR) / "datasets" / "countdown_cd3_test.jsonl");
  CHECK(rows.size() == 256);
  for (const qrl::data::PromptRow& row : rows) {
    const json truth = json::parse(row.ground_truth);
    const CountdownTask task{truth["numbers"], truth["target"]};
    INFO(row.line);
    CHECK(row.prompt == countdown_prompt(task));
    CHECK(row.ground_truth == countdown_ground_truth(task));
    CHECK(row.data_source == "countdown_cd3");
    CHECK(solvable(task));
  }
}
