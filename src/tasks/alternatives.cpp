#include "tasks/alternatives.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "state/json.h"

namespace qrl::tasks {

namespace {

using nlohmann::json;

struct Alternatives final : types::Gold {
  std::vector<std::shared_ptr<const types::Gold>> golds;
};

bool is_answer(const json& value) { return value.is_string() || value.is_number() || value.is_object(); }

std::string text_of(const json& answer) { return answer.is_string() ? answer.get<std::string>() : answer.dump(); }

json list_of(const Question& question) {
  if (!question.ground_truth_json.starts_with('[')) return {};
  json list = state::json_or_null(question.ground_truth_json);
  return list.is_array() ? list : json();
}

class AnyOf final : public RuleVerifier {
 public:
  explicit AnyOf(std::unique_ptr<RuleVerifier> rule) : rule_(std::move(rule)) {}

  void check_ground_truth(const Question& question, const std::string& where) const override {
    const json list = list_of(question);
    if (list.is_null()) return rule_->check_ground_truth(question, where);
    QRL_REQUIRE(!list.empty(), where, "a list of one or more accepted answers", "an empty list");
    for (const json& answer : list) {
      QRL_REQUIRE(is_answer(answer), where, "strings, numbers or objects as accepted answers",
                  base::quoted(answer.dump()));
      const std::string text = text_of(answer);
      rule_->check_ground_truth(one_of(question, text), where);
    }
  }

  std::shared_ptr<const types::Gold> prepare(const Question& question) const override {
    const json list = list_of(question);
    if (list.is_null()) return rule_->prepare(question);
    auto all = std::make_shared<Alternatives>();
    for (const json& answer : list) {
      const std::string text = text_of(answer);
      auto gold = is_answer(answer) ? rule_->prepare(one_of(question, text)) : nullptr;
      if (gold != nullptr) all->golds.push_back(std::move(gold));
    }
    return all->golds.empty() ? nullptr : all;
  }

  Verdict judge_one(std::string_view response, const types::Gold& gold) const noexcept override {
    const auto* all = dynamic_cast<const Alternatives*>(&gold);
    if (all == nullptr) return rule_->judge_one(response, gold);
    Verdict best = rule_->judge_one(response, *all->golds.front());
    for (std::size_t i = 1; i < all->golds.size() && best.outcome != Outcome::correct; ++i) {
      Verdict verdict = rule_->judge_one(response, *all->golds[i]);
      if (verdict.outcome == Outcome::correct || verdict.credit > best.credit) best = std::move(verdict);
    }
    return best;
  }

  bool same_answer(std::string_view one, std::string_view other) const noexcept override {
    return rule_->same_answer(one, other);
  }

 private:
  static Question one_of(Question question, const std::string& answer) {
    question.ground_truth = answer;
    question.ground_truth_json = {};
    return question;
  }

  std::unique_ptr<RuleVerifier> rule_;
};

}  // namespace

std::unique_ptr<Verifier> with_alternatives(std::unique_ptr<RuleVerifier> rule) {
  return std::make_unique<AnyOf>(std::move(rule));
}

std::string first_answer(std::string_view ground_truth) {
  const json list = state::json_or_null(ground_truth);
  const bool is_list = list.is_array() && !list.empty() && is_answer(list.front()) && list.dump() == ground_truth;
  return is_list ? text_of(list.front()) : std::string(ground_truth);
}

}  // namespace qrl::tasks
