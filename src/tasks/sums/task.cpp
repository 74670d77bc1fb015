#include "tasks/task.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/rng.h"
#include "tasks/number_keys.h"

namespace qrl::tasks {

namespace {

/// Holds a question about a sum or a difference. For a difference, first ≥ second.
struct SumTask {
  std::string text;  ///< "What is 47 plus 38?"
  std::int64_t first = 0, second = 0;
  char op = '+';
  std::int64_t answer() const { return op == '+' ? first + second : first - second; }
};

constexpr double kWrong = 1.0 / 3;
constexpr std::int64_t kMostOff = 10;

constexpr std::array<std::string_view, 2> kSums = {"What is # plus #?", "What is # + #?"};
constexpr std::array<std::string_view, 2> kDifferences = {"What is # minus #?", "What is # - #?"};

std::string asked(std::string_view question, std::int64_t first, std::int64_t second) {
  std::string text(question);
  for (const std::int64_t number : {first, second}) text.replace(text.find('#'), 1, std::to_string(number));
  return text;
}

/// Returns question `index` of the endless sequence (max_number, seed, split), with numbers in 1 … max_number. A pair
/// of numbers has the same split in any order and wording. Throws an input error if a split has no pair.
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
                   "no such numbers in ten thousand attempts", "raise max_number");
}

/// Returns "47 + 38 = 85", for example. With probability 1/3, the result is off by a random number of at most 10.
std::string demonstrate_sum(const SumTask& task, std::uint64_t seed, std::uint64_t index) {
  base::RandomStream random(seed, base::RandomPurpose::demonstrations, index * 2 + 1);
  std::int64_t result = task.answer();
  if (random.uniform() < kWrong) result = std::max<std::int64_t>(0, result + random.between(-kMostOff, kMostOff));
  return std::to_string(task.first) + " " + task.op + " " + std::to_string(task.second) + " = " +
         std::to_string(result);
}

GeneratedTask written(const SumTask& task) { return {task.text, std::to_string(task.answer())}; }

GeneratedTask generate(const config::ParamValues& own, std::uint64_t seed, Split split, std::uint64_t index) {
  return written(generate_sum(own.of(max_number_key()), seed, split, index));
}

WorkedTask demonstrate(const config::ParamValues& own, std::uint64_t seed, std::uint64_t index) {
  const SumTask task = generate_sum(own.of(max_number_key()), seed, Split::train, demonstrated_index(seed, index));
  return {written(task), demonstrate_sum(task, seed, index)};
}

}  // namespace

extern const Task sums_task;
const Task sums_task{
    {{.word = "sums", .what = "sums and differences of two numbers in plain English", .params = {max_number_key()}},
     generate,
     demonstrate},
    {}};

}  // namespace qrl::tasks
