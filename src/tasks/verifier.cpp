#include "tasks/verifier.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/threads.h"
#include "config/keys/keys.h"

namespace qrl::tasks {

namespace {

constexpr std::array<std::pair<const char*, double config::RewardRecipe::*>, 4> kRuleScores = {
    {{"correct", &config::RewardRecipe::correct},
     {"wrong", &config::RewardRecipe::wrong},
     {"format", &config::RewardRecipe::format},
     {"partial", &config::RewardRecipe::partial}}};

std::vector<double> rule_scores(const Verdict& verdict) {
  switch (verdict.outcome) {
    case Outcome::correct:
      return {1, 0, 0, 0};
    case Outcome::wrong:
      return {0, 1, 1, verdict.credit};
    case Outcome::no_answer:
      break;
  }
  return {0, 1, 0, 0};
}

std::string verifier_advice(const config::Recipe& recipe) {
  std::string others;
  for (const config::Choice* choice : recipe.keys->catalog().verifiers.all) {
    if (choice->word == recipe.reward.verifier) continue;
    others += (others.empty() ? "" : ", ") + std::string(choice->word) + " for " +
              std::string(static_cast<const VerifierChoice&>(*choice).data_hold);
  }
  return "reward.verifier is " + recipe.reward.verifier + ": for data of another task set reward.verifier: " + others;
}

}  // namespace

std::vector<Verdict> RuleVerifier::judge(std::span<const Sample> samples, const Occasion& /*occasion*/) const {
  std::vector<Verdict> verdicts(samples.size());
  base::parallel_for(std::ssize(samples), 16, [&](base::Range range) {
    for (auto i = static_cast<std::size_t>(range.begin); i < static_cast<std::size_t>(range.end); ++i) {
      const Sample& sample = samples[i];
      verdicts[i] =
          sample.gold == nullptr ? Verdict{Outcome::no_answer, "gold", true} : judge_one(sample.response, *sample.gold);
      verdicts[i].scores = rule_scores(verdicts[i]);
    }
  });
  return verdicts;
}

const std::vector<std::string>& RuleVerifier::score_names() const {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, weight] : kRuleScores) all.emplace_back(name);
    return all;
  }();
  return names;
}

std::vector<double> RuleVerifier::score_weights(const config::RewardRecipe& recipe) const {
  std::vector<double> weights;
  for (const auto& [name, weight] : kRuleScores) weights.push_back(recipe.*weight);
  return weights;
}

std::unique_ptr<Verifier> make_verifier_of(const config::Recipe& recipe, const std::string& word) {
  const config::Choice* chosen = recipe.keys->catalog().verifiers.find(word);
  QRL_INVARIANT(chosen != nullptr, "make_verifier", "a known verifier", base::quoted(word));
  return static_cast<const VerifierChoice&>(*chosen).make(recipe);
}

void check_recipe_gold(const Verifier& verifier, const config::Recipe& recipe, const Question& question,
                       const std::string& where) try {
  verifier.check_ground_truth(question, where);
} catch (const base::Error& error) {
  if (!recipe.reward.command.empty())
    throw;  // the error's advice to choose another verifier does not apply to a
            // command
  throw base::Error(error.kind(), error.what(), "", "", verifier_advice(recipe));
}

}  // namespace qrl::tasks
