#include <algorithm>
#include <limits>
#include <map>

#include "base/log.h"
#include "base/text.h"
#include "tasks/verifier.h"

namespace qrl::tasks {

namespace {

struct SourceGold final : types::Gold {
  std::size_t verifier = 0;
  std::shared_ptr<const types::Gold> gold;  ///< may be null
};

constexpr double kDoesNotApply = std::numeric_limits<double>::quiet_NaN();

/// Judges each sample by its data source's verifier (reward.by_source). A verdict has all rule scores, then all scores
/// of the command.
class SourceVerifier final : public Verifier {
 public:
  explicit SourceVerifier(const VerifierOptions& options) {
    std::map<std::string, std::size_t> of_word;
    const auto index_of_word = [&](const std::string& word) {
      const auto [known, is_new] = of_word.try_emplace(word, verifiers_.size());
      if (is_new) {
        verifiers_.push_back(make_verifier_of(options, word));
        (verifiers_.back()->is_rule() ? rule_ : command_) = verifiers_.back().get();
      }
      return known->second;
    };
    index_of_word(options.word);
    for (const auto& [source, word] : options.by_source) {
      of_source_[source] = index_of_word(word);
      seen_[source] = false;
    }
  }

  void check_ground_truth(const Question& question, const std::string& where) const override {
    if (const auto one = seen_.find(question.data_source); one != seen_.end()) one->second = true;
    verifiers_[index_of(question.data_source)]->check_ground_truth(question, where);
  }
  void finish_checks() const override {
    for (const auto& verifier : verifiers_) verifier->finish_checks();
  }
  std::shared_ptr<const types::Gold> prepare(const Question& question) const override {
    auto gold = std::make_shared<SourceGold>();
    gold->verifier = index_of(question.data_source);
    gold->gold = verifiers_[gold->verifier]->prepare(question);
    return gold;
  }
  std::vector<Verdict> judge(std::span<const Sample> samples, const JudgeContext& context) const override;
  const std::vector<std::string>& score_names() const override {
    if (names_.empty()) names_ = of_all<std::string>([](const Verifier& verifier) { return verifier.score_names(); });
    return names_;
  }
  std::vector<double> score_weights(const RuleWeights& rule_weights) const override {
    return of_all<double>([&](const Verifier& verifier) { return verifier.score_weights(rule_weights); });
  }
  bool is_rule() const override { return command_ == nullptr; }
  bool wants_rows() const override { return command_ != nullptr && command_->wants_rows(); }
  bool needs_ground_truths() const override {
    return std::ranges::any_of(verifiers_, [](const auto& verifier) { return verifier->needs_ground_truths(); });
  }
  bool wants_tokens() const override { return command_ != nullptr && command_->wants_tokens(); }
  const std::vector<Read>& reads() const override {
    return command_ == nullptr ? Verifier::reads() : command_->reads();
  }
  std::optional<JudgeReport> take_report() const override {
    return command_ == nullptr ? std::nullopt : command_->take_report();
  }
  void log_to(const std::filesystem::path& file) const override {
    if (command_ != nullptr) command_->log_to(file);
  }
  void show_log() const override {
    if (command_ != nullptr) command_->show_log();
  }
  bool same_answer(std::string_view one, std::string_view other) const noexcept override {
    return std::ranges::any_of(verifiers_, [&](const auto& verifier) { return verifier->same_answer(one, other); });
  }

 private:
  std::size_t index_of(std::string_view data_source) const {
    const auto known = of_source_.find(data_source);
    return known == of_source_.end() ? 0 : known->second;
  }
  /// Returns `get` of a rule verifier, which is the same for all rule verifiers, followed by `get` of the command.
  template <class Value, class Get>
  std::vector<Value> of_all(const Get& get) const {
    std::vector<Value> values = rule_ == nullptr ? std::vector<Value>() : get(*rule_);
    if (command_ == nullptr) return values;
    const std::vector<Value> own = get(*command_);
    values.insert(values.end(), own.begin(), own.end());
    return values;
  }
  /// Extends a verifier's scores to all score_names(), with NaN for other verifiers' scores.
  void widen(Verdict& verdict, const Verifier& verifier) const {
    std::vector<double> all(score_names().size(), kDoesNotApply);
    const std::size_t first = &verifier == command_ && rule_ != nullptr ? rule_->score_names().size() : 0;
    std::ranges::copy(verdict.scores, all.begin() + static_cast<std::ptrdiff_t>(first));
    verdict.scores = std::move(all);
  }

  std::vector<std::unique_ptr<Verifier>> verifiers_;  ///< the first is reward.verifier
  const Verifier *rule_ = nullptr, *command_ = nullptr;
  std::map<std::string, std::size_t, std::less<>> of_source_;
  mutable std::vector<std::string> names_;
  mutable std::map<std::string, bool, std::less<>> seen_;  ///< data source of reward.by_source → whether a row has it
};

std::vector<Verdict> SourceVerifier::judge(std::span<const Sample> samples, const JudgeContext& context) const {
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
    std::vector<Verdict> own = verifiers_[k]->judge(mine, context);
    for (std::size_t i = 0; i < own.size(); ++i) {
      widen(own[i], *verifiers_[k]);
      verdicts[places[i]] = std::move(own[i]);
    }
  }
  return verdicts;
}

}  // namespace

namespace {

std::unique_ptr<Verifier> make_for_sources(const VerifierOptions& options) {
  if (!options.by_source.empty()) return std::make_unique<SourceVerifier>(options);
  return make_verifier_of(options, options.word);
}

}  // namespace

std::unique_ptr<Verifier> make_verifier(const VerifierOptions& options) {
  std::unique_ptr<Verifier> verifier = make_for_sources(options);
  verifier->play_with(options.environment);
  return verifier;
}

}  // namespace qrl::tasks
