#include "tasks/by_source.h"

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "base/text.h"

namespace qrl::tasks {

namespace {

struct SourceGold final : types::Gold {
  std::size_t verifier = 0;
  std::shared_ptr<const types::Gold> gold;  ///< prepared by the source's verifier; may be null
};

constexpr double kDoesNotApply = std::numeric_limits<double>::quiet_NaN();

}  // namespace

SourceVerifier::SourceVerifier(const VerifierOptions& options) {
  std::map<std::string, std::size_t> of_word;
  const auto index_of_word = [&](const std::string& word) {
    const auto [known, is_new] = of_word.try_emplace(word, verifiers_.size());
    if (is_new) {
      verifiers_.push_back(make_verifier_of(options, word));
      if (!verifiers_.back()->is_rule()) command_ = known->second;
    }
    return known->second;
  };
  index_of_word(options.word);
  for (const auto& [source, word] : options.by_source) {
    of_source_[source] = index_of_word(word);
    seen_[source] = false;
  }
}

std::size_t SourceVerifier::index_of(std::string_view data_source) const {
  const auto known = of_source_.find(data_source);
  return known == of_source_.end() ? 0 : known->second;
}

void SourceVerifier::check_ground_truth(const Question& question, const std::string& where) const {
  if (const auto one = seen_.find(question.data_source); one != seen_.end()) one->second = true;
  verifiers_[index_of(question.data_source)]->check_ground_truth(question, where);
}

void SourceVerifier::finish_checks() const {
  for (const auto& verifier : verifiers_) verifier->finish_checks();
}

std::shared_ptr<const types::Gold> SourceVerifier::prepare(const Question& question) const {
  auto gold = std::make_shared<SourceGold>();
  gold->verifier = index_of(question.data_source);
  gold->gold = verifiers_[gold->verifier]->prepare(question);
  return gold;
}

std::size_t SourceVerifier::num_rule_scores() const {
  for (const auto& verifier : verifiers_) {
    if (verifier->is_rule()) return verifier->score_names().size();
  }
  return 0;
}

const std::vector<std::string>& SourceVerifier::score_names() const {
  if (!names_.empty()) return names_;
  for (std::size_t i = 0; i < verifiers_.size() && names_.empty(); ++i) {
    if (verifiers_[i]->is_rule()) names_ = verifiers_[i]->score_names();
  }
  if (command_ != kNone) {
    const auto& own = verifiers_[command_]->score_names();
    names_.insert(names_.end(), own.begin(), own.end());
  }
  return names_;
}

std::vector<double> SourceVerifier::score_weights(const RuleWeights& rule_weights) const {
  std::vector<double> weights;
  for (std::size_t i = 0; i < verifiers_.size() && weights.empty(); ++i) {
    if (verifiers_[i]->is_rule()) weights = verifiers_[i]->score_weights(rule_weights);
  }
  if (command_ != kNone) {
    const std::vector<double> own = verifiers_[command_]->score_weights(rule_weights);
    weights.insert(weights.end(), own.begin(), own.end());
  }
  return weights;
}

void SourceVerifier::widen(Verdict& verdict, std::size_t verifier) const {
  std::vector<double> all(score_names().size(), kDoesNotApply);
  const std::size_t first = verifier == command_ ? num_rule_scores() : 0;
  std::copy(verdict.scores.begin(), verdict.scores.end(), all.begin() + static_cast<std::ptrdiff_t>(first));
  verdict.scores = std::move(all);
}

std::vector<Verdict> SourceVerifier::judge(std::span<const Sample> samples, const Occasion& occasion) const {
  for (const auto& [source, seen] : seen_) {
    if (!seen)
      base::log_once("reward.by_source " + source,
                     "reward.by_source names the data source " + base::quoted(source) + ", which no row has");
  }
  std::vector<Verdict> verdicts(samples.size());
  for (std::size_t k = 0; k < verifiers_.size(); ++k) {
    std::vector<Sample> mine;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto* gold = static_cast<const SourceGold*>(samples[i].gold);
      if ((gold == nullptr ? 0 : gold->verifier) != k) continue;
      mine.push_back(samples[i]);
      mine.back().gold = gold == nullptr ? nullptr : gold->gold.get();
      places.push_back(i);
    }
    if (mine.empty()) continue;
    std::vector<Verdict> own = verifiers_[k]->judge(mine, occasion);
    for (std::size_t i = 0; i < own.size(); ++i) {
      widen(own[i], k);
      verdicts[places[i]] = std::move(own[i]);
    }
  }
  return verdicts;
}

bool SourceVerifier::wants_rows() const { return command_ != kNone && verifiers_[command_]->wants_rows(); }

std::optional<JudgeReport> SourceVerifier::take_report() const {
  return command_ == kNone ? std::nullopt : verifiers_[command_]->take_report();
}

void SourceVerifier::show_log() const {
  if (command_ != kNone) verifiers_[command_]->show_log();
}

void SourceVerifier::log_to(const std::filesystem::path& file) const {
  if (command_ != kNone) verifiers_[command_]->log_to(file);
}

bool SourceVerifier::same_answer(std::string_view one, std::string_view other) const noexcept {
  return std::any_of(verifiers_.begin(), verifiers_.end(),
                     [&](const auto& verifier) { return verifier->same_answer(one, other); });
}

std::unique_ptr<Verifier> make_verifier(const VerifierOptions& options) {
  if (!options.by_source.empty()) return std::make_unique<SourceVerifier>(options);
  return make_verifier_of(options, options.word);
}

}  // namespace qrl::tasks
