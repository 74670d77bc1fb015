#include "tasks/arithmetic/generator.h"

#include <array>
#include <optional>

#include "base/error.h"
#include "base/rng.h"

namespace qrl::tasks {

namespace {

constexpr double kWrongStep = 0.45;
constexpr std::int64_t kMaxFactor = 5;

struct Person {
  const char* name;
  const char* pronoun;
};
constexpr std::array<Person, 8> kPeople = {{{"Ann", "She"},
                                            {"Ben", "He"},
                                            {"Cleo", "She"},
                                            {"Dan", "He"},
                                            {"Eva", "She"},
                                            {"Finn", "He"},
                                            {"Gia", "She"},
                                            {"Hal", "He"}}};
constexpr std::array<const char*, 8> kThings = {"pens", "nuts", "eggs", "cards", "coins", "books", "shells", "stamps"};
constexpr std::array<const char*, 3> kGains = {"buys # more", "finds # more", "is given # more"};
constexpr std::array<const char*, 3> kLosses = {"gives away #", "loses #", "sells #"};
constexpr std::array<const char*, 2> kTimes = {"then has # times as many", "multiplies them by #"};
constexpr std::array<const char*, 2> kParts = {"keeps one of # equal parts",
                                               "shares them equally among # and keeps a share"};

std::optional<std::int64_t> apply(char op, std::int64_t a, std::int64_t b, std::int64_t most) {
  std::int64_t value = 0;
  if (op == '+' && __builtin_add_overflow(a, b, &value)) return std::nullopt;
  if (op == '-') value = a - b;
  if (op == '*' && __builtin_mul_overflow(a, b, &value)) return std::nullopt;
  if (op == '/') value = b > 0 && a % b == 0 ? a / b : 0;
  return value >= 1 && value <= most ? std::optional(value) : std::nullopt;
}

template <std::size_t N>
std::string phrase(const std::array<const char*, N>& phrases, std::int64_t operand, base::RandomStream& random) {
  std::string text = phrases[random.below(N)];
  return text.replace(text.find('#'), 1, std::to_string(operand));
}

std::optional<ArithmeticTask> try_problem(const ArithmeticRanges& ranges, base::RandomStream& random) {
  ArithmeticTask task;
  const Person& person = kPeople[random.below(kPeople.size())];
  const std::string things = kThings[random.below(kThings.size())];
  const std::int64_t num_steps = random.between(ranges.min_steps, ranges.max_steps);
  task.start = random.between(1, std::min(ranges.max_number, ranges.max_target));
  task.text = std::string(person.name) + " has " + std::to_string(task.start) + " " + things + ". ";
  std::int64_t value = task.start;
  for (std::int64_t k = 0; k < num_steps; ++k) {
    const char op = "+-*/"[random.below(4)];
    const bool scales = op == '*' || op == '/';
    const std::int64_t operand = scales ? random.between(2, kMaxFactor) : random.between(1, ranges.max_number);
    const auto next = apply(op, value, operand, ranges.max_target);
    if (!next) return std::nullopt;
    const std::string what = op == '+'   ? phrase(kGains, operand, random)
                             : op == '-' ? phrase(kLosses, operand, random)
                             : op == '*' ? phrase(kTimes, operand, random)
                                         : phrase(kParts, operand, random);
    task.text += std::string(person.pronoun) + " " + what + ". ";
    task.steps.push_back({op, operand, *next});
    value = *next;
  }
  const std::string pronoun = person.pronoun == std::string("She") ? "she" : "he";
  task.text += "How many " + things + " does " + pronoun + " have?";
  return task;
}

}  // namespace

ArithmeticTask generate_arithmetic(const ArithmeticRanges& ranges, std::uint64_t seed, Split split,
                                   std::uint64_t index) {
  base::RandomStream random(seed, base::RandomPurpose::generator, index * 2 + (split == Split::held_out ? 1 : 0));
  constexpr int kMaxAttempts = 100'000;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    auto task = try_problem(ranges, random);
    if (task && split_of(std::string_view(task->text)) == split) return *std::move(task);
  }
  base::fail_input("arithmetic generator", "a problem within the ranges of steps, max_number and max_target",
                   "no such problem in 100,000 attempts", "widen the ranges");
}

std::string arithmetic_prompt(const ArithmeticTask& task) { return task.text + "\n"; }

std::string demonstrate_arithmetic(const ArithmeticTask& task, std::uint64_t seed, std::uint64_t index) {
  base::RandomStream random(seed, base::RandomPurpose::demonstrations, index * 2 + 1);
  std::string response;
  std::int64_t value = task.start;
  for (const ArithmeticTask::Step& step : task.steps) {
    const char written = random.uniform() < kWrongStep ? "+-*/"[random.below(4)] : step.op;
    const auto wrong = apply(written, value, step.operand, 1'000'000'000);
    const char op = wrong ? written : '+';
    const std::int64_t next = wrong.value_or(value + step.operand);
    response += std::to_string(value) + op + std::to_string(step.operand) + "=" + std::to_string(next) + " ";
    value = next;
  }
  return response + "\\boxed{" + std::to_string(value) + "}";
}

}  // namespace qrl::tasks
