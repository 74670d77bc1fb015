#include "tasks/countdown/verifier.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "reward/answer.h"
#include "tasks/countdown/expression.h"

namespace qrl::tasks {

namespace {

struct CountdownGold final : types::Gold {
  CountdownTruth truth;
};

/// Accepts only {"numbers":[…],"target":…}.
class GroundTruthReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  const CountdownTruth& truth() const { return truth_; }
  bool complete() const { return closed_ && has_numbers_ && has_target_ && !truth_.numbers.empty(); }

  bool start_object(std::size_t) override { return std::exchange(opened_, true) == false; }
  bool end_object() override { return closed_ = true; }
  bool key(string_t& name) override {
    expected_ = Place::nothing;
    if (name == "numbers" && !std::exchange(has_numbers_, true)) expected_ = Place::numbers;
    if (name == "target" && !std::exchange(has_target_, true)) expected_ = Place::target;
    return expected_ != Place::nothing;
  }
  bool start_array(std::size_t) override {
    const bool allowed = expected_ == Place::numbers;
    expected_ = Place::number;
    return allowed;
  }
  bool end_array() override {
    std::sort(truth_.numbers.begin(), truth_.numbers.end());
    expected_ = Place::nothing;
    return true;
  }
  bool number_integer(number_integer_t value) override {  // called for negative numbers only
    if (expected_ != Place::target) return false;
    return set_target(value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return false;
    if (expected_ == Place::target) return set_target(static_cast<std::int64_t>(value));
    if (expected_ != Place::number || truth_.numbers.size() == kMaxNumbers) return false;
    truth_.numbers.push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool null() override { return false; }
  bool boolean(bool) override { return false; }
  bool number_float(number_float_t, const string_t&) override { return false; }
  bool string(string_t&) override { return false; }
  bool binary(binary_t&) override { return false; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  enum class Place : std::uint8_t { nothing, numbers, number, target };
  bool set_target(std::int64_t value) {
    truth_.target = value;
    expected_ = Place::nothing;
    return true;
  }

  CountdownTruth truth_;
  Place expected_ = Place::nothing;
  bool opened_ = false, closed_ = false, has_numbers_ = false, has_target_ = false;
};

}  // namespace

std::optional<CountdownTruth> read_countdown_truth(std::string_view text) {
  GroundTruthReader reader;
  const bool read = nlohmann::json::sax_parse(text, &reader);
  // Rejects text after a NUL byte, where the parser stops.
  if (!read || !reader.complete() || text.find('\0') != std::string_view::npos) return std::nullopt;
  return reader.truth();
}

namespace {

/// Drops a final "= number".
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
  switch (expression.fault) {
    case ExpressionFault::too_long:
      return {Outcome::no_answer, "answer too long", true};
    case ExpressionFault::too_deep:
      return {Outcome::no_answer, "answer nested too deep", true};
    case ExpressionFault::grammar:
      return {Outcome::no_answer, "not in the grammar", false};
    default:
      break;
  }
  if (!uses_given_numbers(expression, truth, rule)) return {Outcome::wrong, "numbers differ", false};
  switch (expression.fault) {
    case ExpressionFault::division_by_zero:
      return {Outcome::wrong, "division by zero", false};
    case ExpressionFault::overflow:
      return {Outcome::wrong, "overflow", false};
    default:
      break;
  }
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
  return {Outcome::no_answer, "out of memory", true};  // formatting the answer may fail to allocate
}

}  // namespace qrl::tasks
