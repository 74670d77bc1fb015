#include "tasks/verifier.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/threads.h"

namespace qrl::tasks {

namespace {

constexpr std::array<std::pair<const char*, double RuleWeights::*>, 4> kRuleScores = {
    {{"correct", &RuleWeights::correct},
     {"wrong", &RuleWeights::wrong},
     {"format", &RuleWeights::format},
     {"partial", &RuleWeights::partial}}};

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

std::string verifier_advice(const VerifierOptions& options) {
  std::string others;
  for (const VerifierChoice* choice : options.known.typed()) {
    if (choice->word == options.word) continue;
    others += (others.empty() ? "" : ", ") + std::string(choice->word) + " for " + std::string(choice->data_hold);
  }
  return "reward.verifier is " + options.word + ": for data of another task set reward.verifier: " + others;
}

}  // namespace

std::int64_t num_workers(const CommandOptions& options) {
  return options.workers > 0 ? options.workers : std::max(1, base::num_threads() / 2);
}

const std::vector<Read>& Verifier::reads() const {
  static const std::vector<Read> kNone;
  return kNone;
}

std::vector<Verdict> RuleVerifier::judge(std::span<const Sample> samples, const JudgeContext& /*context*/) const {
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

std::vector<double> RuleVerifier::score_weights(const RuleWeights& weights) const {
  std::vector<double> all;
  for (const auto& [name, weight] : kRuleScores) all.push_back(weights.*weight);
  return all;
}

std::unique_ptr<Verifier> make_verifier_of(const VerifierOptions& options, const std::string& word) {
  const VerifierChoice* chosen = options.known.find(word);
  QRL_INVARIANT(chosen != nullptr, "make_verifier", "a known verifier", base::quoted(word));
  return chosen->make(options);
}

void check_gold(const Verifier& verifier, const VerifierOptions& options, const Question& question,
                const std::string& where) try {
  verifier.check_ground_truth(question, where);
} catch (const base::Error& error) {
  if (!options.command.argv.empty()) throw;  // a command's error needs no advice on other verifiers
  throw base::Error(error.kind(), error.what(), "", "", verifier_advice(options));
}

}  // namespace qrl::tasks
