#include "tasks/sums/generator.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/rng.h"

namespace qrl::tasks {

namespace {

constexpr double kWrong = 1.0 / 3;
constexpr std::int64_t kMostOff = 10;

/// Templates; # is a number.
constexpr std::array<std::string_view, 2> kSums = {"What is # plus #?", "What is # + #?"};
constexpr std::array<std::string_view, 2> kDifferences = {"What is # minus #?", "What is # - #?"};

std::string asked(std::string_view question, std::int64_t first, std::int64_t second) {
  std::string text(question);
  for (const std::int64_t number : {first, second}) text.replace(text.find('#'), 1, std::to_string(number));
  return text;
}

}  // namespace

SumTask generate_sum(std::int64_t max_number, std::uint64_t seed, Split split, std::uint64_t index) {
  base::RandomStream random(seed, base::RandomPurpose::generator, index * 2 + (split == Split::held_out ? 1 : 0));
  constexpr int kMaxAttempts = 10'000;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    SumTask task;
    task.first = random.between(1, max_number);
    task.second = random.between(1, max_number);
    task.op = random.below(2) == 0 ? '+' : '-';
    if (task.op == '-' && task.first < task.second) std::swap(task.first, task.second);
    const std::array<std::int64_t, 2> numbers = {std::min(task.first, task.second), std::max(task.first, task.second)};
    const auto& questions = task.op == '+' ? kSums : kDifferences;
    task.text = asked(questions[random.below(questions.size())], task.first, task.second);
    if (split_of(std::span<const std::int64_t>(numbers)) == split) return task;
  }
  base::fail_input("sums generator", "two numbers up to max_number " + std::to_string(max_number) + " in each split",
                   "none in ten thousand attempts", "raise max_number");
}

std::string demonstrate_sum(const SumTask& task, std::uint64_t seed, std::uint64_t index) {
  base::RandomStream random(seed, base::RandomPurpose::demonstrations, index * 2 + 1);
  std::int64_t result = task.answer();
  if (random.uniform() < kWrong) result = std::max<std::int64_t>(0, result + random.between(-kMostOff, kMostOff));
  return std::to_string(task.first) + " " + task.op + " " + std::to_string(task.second) + " = " +
         std::to_string(result);
}

}  // namespace qrl::tasks
