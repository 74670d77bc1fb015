#include "tasks/countdown/verifier.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "reward/answer.h"
#include "state/json.h"
#include "tasks/countdown/expression.h"

namespace qrl::tasks {

namespace {

struct CountdownGold final : types::Gold {
  CountdownTruth truth;
};

}  // namespace

std::optional<CountdownTruth> read_countdown_truth(std::string_view text) {
  using nlohmann::json;
  const json truth = state::json_or_null(text);
  if (!truth.is_object() || truth.size() != 2 || !truth.contains("numbers") || !truth.contains("target")) return {};
  const json &numbers = truth["numbers"], &target = truth["target"];
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto is_number = [](const json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() <= kMost;
  };
  const bool has_target = is_number(target) || (target.is_number_integer() && !target.is_number_unsigned());
  if (!has_target || !numbers.is_array() || numbers.empty() || numbers.size() > kMaxNumbers) return {};
  if (!std::ranges::all_of(numbers, is_number)) return {};
  CountdownTruth read{numbers.get<std::vector<std::int64_t>>(), target.get<std::int64_t>()};
  std::ranges::sort(read.numbers);
  return read;
}

namespace {

std::string_view drop_trailing_value(std::string_view text) noexcept {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) return text;
  std::string_view value = text.substr(equals + 1);
  constexpr std::string_view kSpace = " \t\n\r";
  constexpr std::string_view kDigits = "0123456789";
  value.remove_prefix(std::min(value.find_first_not_of(kSpace), value.size()));
  if (value.starts_with('-') || value.starts_with('+')) value.remove_prefix(1);
  const std::size_t whole = std::min(value.find_first_not_of(kDigits), value.size());
  value.remove_prefix(whole);
  if (value.starts_with('.')) value.remove_prefix(std::min(value.find_first_not_of(kDigits, 1), value.size()));
  return whole > 0 && value.find_first_not_of(kSpace) == std::string_view::npos ? text.substr(0, equals) : text;
}

bool uses_given_numbers(const Expression& expression, const CountdownTruth& truth, Numbers rule) noexcept {
  if (expression.num_numbers > truth.numbers.size()) return false;
  if (rule == Numbers::all && expression.num_numbers != truth.numbers.size()) return false;
  std::array<std::int64_t, kMaxNumbers> used = expression.numbers;
  const auto used_end = used.begin() + static_cast<std::ptrdiff_t>(expression.num_numbers);
  std::sort(used.begin(), used_end);
  return std::includes(truth.numbers.begin(), truth.numbers.end(), used.begin(), used_end);
}

Verdict judge_answer(const reward::ExtractedAnswer& answer, const CountdownTruth& truth, Numbers rule) noexcept {
  const Expression expression = answer.boxed ? evaluate_expression(drop_trailing_value(answer.text), Operators::latex)
                                             : evaluate_expression(answer.text, Operators::ascii);
  const ExpressionFault fault = expression.fault;
  if (fault == ExpressionFault::too_long) return {Outcome::no_answer, "answer too long", true};
  if (fault == ExpressionFault::too_deep) return {Outcome::no_answer, "answer nested too deep", true};
  if (fault == ExpressionFault::grammar) return {Outcome::no_answer, "not in the grammar", false};
  if (!uses_given_numbers(expression, truth, rule)) return {Outcome::wrong, "numbers differ", false};
  if (fault == ExpressionFault::division_by_zero) return {Outcome::wrong, "division by zero", false};
  if (fault == ExpressionFault::overflow) return {Outcome::wrong, "overflow", false};
  if (expression.value.denominator != 1 || expression.value.numerator != truth.target) {
    return {Outcome::wrong, "wrong value", false};
  }
  return {Outcome::correct, "correct", false};
}

}  // namespace

void CountdownVerifier::check_ground_truth(const Question& question, const std::string& where) const {
  QRL_REQUIRE(read_countdown_truth(question.ground_truth), where,
              "a countdown ground truth such as {\"numbers\":[3,8,12],\"target\":36} (1 to 32 integers, none negative)",
              base::quoted(question.ground_truth));
}

std::shared_ptr<const types::Gold> CountdownVerifier::prepare(const Question& question) const {
  auto truth = read_countdown_truth(question.ground_truth);
  if (!truth) return nullptr;
  auto gold = std::make_shared<CountdownGold>();
  gold->truth = *std::move(truth);
  return gold;
}

Verdict CountdownVerifier::judge_one(std::string_view response, const types::Gold& gold) const noexcept try {
  const auto answer = reward::extract_answer(response);
  if (answer) {
    Verdict verdict = judge_answer(*answer, static_cast<const CountdownGold&>(gold).truth, numbers_);
    verdict.extracted = reward::shown(answer->text);
    return verdict;
  }
  if (response.size() > reward::kMaxScanned_bytes) return {Outcome::no_answer, "response too long", true};
  return {Outcome::no_answer, "no answer", false};
} catch (...) {
  return {Outcome::no_answer, "out of memory", true};
}

}  // namespace qrl::tasks
