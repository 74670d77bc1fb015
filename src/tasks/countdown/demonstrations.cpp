#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/rng.h"
#include "tasks/countdown/generator.h"

namespace qrl::tasks {

namespace {

// Chosen by measurement: the quickstart's cold start solves about a quarter of its tasks.
constexpr double kRightFirst = 0.3;  // probability that an attempt is correct, while wrong chains are left
constexpr double kStopWrong = 0.3;   // probability of answering after a failed attempt
constexpr int kMaxTries = 8;
constexpr double kNearness = 20.0;  // scale of |value − target| in the order of wrong attempts
constexpr std::int64_t kLargestValue = 99;

/// Holds operations applied from left to right, ((x o y) o z) …, with values in 1…kLargestValue.
struct Chain {
  std::int64_t value = 0;
  std::string steps;       ///< "6*2=12-4=8"
  std::string expression;  ///< "(6*2)-4"
};

std::optional<std::int64_t> apply_bounded(char op, std::int64_t a, std::int64_t b) {
  const std::int64_t value = op == '+'             ? a + b
                             : op == '*'           ? a * b
                             : op == '-'           ? a - b
                             : b > 1 && a % b == 0 ? a / b
                                                   : 0;
  if (value < 1 || value > kLargestValue) return std::nullopt;
  return value;
}

void extend(const Chain& chain, const std::vector<std::int64_t>& left, std::vector<Chain>& chains) {
  if (left.empty()) {
    chains.push_back(chain);
    return;
  }
  for (std::size_t i = 0; i < left.size(); ++i) {
    std::vector<std::int64_t> rest = left;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    for (const char op : {'+', '*', '-', '/'}) {
      const auto value = apply_bounded(op, chain.value, left[i]);
      if (!value) continue;
      const std::string number = std::to_string(left[i]);
      extend({*value, chain.steps + op + number + "=" + std::to_string(*value),
              "(" + chain.expression + ")" + op + number},
             rest, chains);
    }
  }
}

/// Returns all chains over the numbers. The first two numbers of a chain are in descending order.
std::vector<Chain> all_chains(const std::vector<std::int64_t>& numbers) {
  std::vector<Chain> chains;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    for (std::size_t j = i + 1; j < numbers.size(); ++j) {
      std::vector<std::int64_t> rest = numbers;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(j));
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      const std::int64_t a = std::max(numbers[i], numbers[j]), b = std::min(numbers[i], numbers[j]);
      for (const char op : {'+', '*', '-', '/'}) {
        const auto value = apply_bounded(op, a, b);
        if (!value) continue;
        const std::string expression = std::to_string(a) + op + std::to_string(b);
        extend({*value, expression + "=" + std::to_string(*value), expression}, rest, chains);
      }
    }
  }
  return chains;
}

/// Returns the wrong chains, sorted by |value − target| / kNearness minus Gumbel noise: a random order in which near
/// misses tend to be first.
std::vector<const Chain*> near_misses_first(const std::vector<Chain>& chains, std::int64_t target,
                                            base::RandomStream& random) {
  std::vector<std::pair<double, const Chain*>> order;
  for (const Chain& chain : chains) {
    if (chain.value == target) continue;
    const double exponential = -std::log(1.0 - random.uniform());
    order.emplace_back(static_cast<double>(std::abs(chain.value - target)) / kNearness + std::log(exponential + 1e-300),
                       &chain);
  }
  std::ranges::sort(order);
  std::vector<const Chain*> wrong;
  wrong.reserve(order.size());
  for (const auto& [key, chain] : order) wrong.push_back(chain);
  return wrong;
}

}  // namespace

Demonstration demonstrate_countdown(const CountdownRanges& ranges, std::uint64_t seed, std::uint64_t index) {
  base::RandomStream random(seed, base::RandomPurpose::demonstrations, index);
  constexpr int kMaxTasks = 1000;
  for (int attempt = 0; attempt < kMaxTasks; ++attempt) {
    const CountdownTask task = generate_countdown(ranges, seed, Split::train, random.below(std::uint64_t{1} << 62));
    const std::vector<Chain> chains = all_chains(task.numbers);
    std::vector<const Chain*> right;
    for (const Chain& chain : chains) {
      if (chain.value == task.target) right.push_back(&chain);
    }
    if (right.empty()) continue;

    const std::vector<const Chain*> wrong = near_misses_first(chains, task.target, random);
    std::size_t next_wrong = 0;
    const Chain* last = nullptr;
    Demonstration demonstration{task, {}};
    for (int i = 0; i < kMaxTries; ++i) {
      const bool succeed = next_wrong == wrong.size() || random.uniform() < kRightFirst;
      last = succeed ? right[random.below(right.size())] : wrong[next_wrong++];
      demonstration.response += last->steps + "~" + std::to_string(task.target) + (succeed ? "!" : "?");
      if (succeed || random.uniform() < kStopWrong) break;
    }
    demonstration.response += "<answer>" + last->expression + "</answer>";
    return demonstration;
  }
  base::fail_input("sft.demonstrations", "tasks that can be solved from left to right with values from 1 to 99",
                   "no such task in " + std::to_string(kMaxTasks), "lower max_target or max_number");
}

}  // namespace qrl::tasks
