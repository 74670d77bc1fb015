#include "tasks/countdown/generator.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/rng.h"

namespace qrl::tasks {

namespace {

/// A random expression tree: nodes 0 … numbers.size() − 1 are the numbers. Each later node joins two earlier nodes. The
/// last node is the result.
struct RandomExpression {
  struct Node {
    std::int64_t value = 0;
    char op = '\0';
    std::size_t left = 0, right = 0;
  };
  std::vector<std::int64_t> numbers;
  std::vector<Node> nodes;

  std::int64_t value() const { return nodes.back().value; }
  CountdownTask task() const { return {numbers, value()}; }
};

std::optional<std::int64_t> apply(char op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case '+':
      return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case '-':
      return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case '*':
      return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    default:
      return b <= 0 || a % b != 0 ? std::nullopt : std::optional(a / b);
  }
}

/// Draws one random expression. Returns none if a value is no integer or the result is not in 1…max_target.
std::optional<RandomExpression> try_expression(base::RandomStream& random, const CountdownRanges& ranges) {
  RandomExpression expression;
  const std::int64_t num_numbers = random.between(ranges.min_numbers, ranges.max_numbers);
  std::vector<std::size_t> open;  // nodes not yet joined
  for (std::int64_t i = 0; i < num_numbers; ++i) {
    expression.numbers.push_back(random.between(1, ranges.max_number));
    open.push_back(expression.nodes.size());
    expression.nodes.push_back({expression.numbers.back()});
  }
  const auto take = [&] {
    std::swap(open[random.below(open.size())], open.back());
    const std::size_t node = open.back();
    open.pop_back();
    return node;
  };
  while (open.size() > 1) {
    RandomExpression::Node node;
    node.left = take();
    node.right = take();
    node.op = "+-*/"[random.below(4)];
    const auto value = apply(node.op, expression.nodes[node.left].value, expression.nodes[node.right].value);
    if (!value) return std::nullopt;
    node.value = *value;
    open.push_back(expression.nodes.size());
    expression.nodes.push_back(node);
  }
  if (expression.value() < 1 || expression.value() > ranges.max_target) return std::nullopt;
  return expression;
}

RandomExpression expression_of_split(base::RandomStream random, const CountdownRanges& ranges, Split split) {
  QRL_REQUIRE(ranges.min_numbers >= 1 && ranges.min_numbers <= ranges.max_numbers && ranges.max_number >= 1,
              "countdown generator", "1 <= min_numbers <= max_numbers and max_number >= 1",
              std::to_string(ranges.min_numbers) + ", " + std::to_string(ranges.max_numbers) + " and " +
                  std::to_string(ranges.max_number));
  constexpr int kMaxAttempts = 1'000'000;  // takes about a second
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    auto expression = try_expression(random, ranges);
    if (expression && split_of(expression->task()) == split) return *std::move(expression);
  }
  base::fail_input("countdown generator", "a task within min_numbers to max_numbers, max_number and max_target",
                   "no such task in a million attempts", "widen the ranges");
}

CountdownTask with_sorted_numbers(CountdownTask task) {
  std::ranges::sort(task.numbers);
  return task;
}

nlohmann::ordered_json ground_truth_of(const CountdownTask& task) {
  return {{"numbers", task.numbers}, {"target", task.target}};
}

}  // namespace

Split split_of(const CountdownTask& task) {
  CountdownTask sorted = with_sorted_numbers(task);
  sorted.numbers.push_back(task.target);
  return split_of(std::span<const std::int64_t>(sorted.numbers));
}

CountdownTask generate_countdown(const CountdownRanges& ranges, std::uint64_t seed, Split split, std::uint64_t index) {
  const std::uint64_t stream = index * 2 + (split == Split::held_out ? 1 : 0);
  return expression_of_split({seed, base::RandomPurpose::generator, stream}, ranges, split).task();
}

std::string countdown_prompt(const CountdownTask& task) {
  std::string text;
  for (const std::int64_t number : task.numbers) text += std::to_string(number) + " ";
  return text + "= " + std::to_string(task.target) + "\n";
}

std::string countdown_ground_truth(const CountdownTask& task) { return ground_truth_of(task).dump(); }

}  // namespace qrl::tasks
