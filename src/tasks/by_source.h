#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tasks/verifier.h"

namespace qrl::tasks {

/// Judges each sample by its data source's verifier (reward.by_source). Scores: the rules', then the command's.
class SourceVerifier final : public Verifier {
 public:
  explicit SourceVerifier(const VerifierOptions& options);

  void check_ground_truth(const Question& question, const std::string& where) const override;
  void finish_checks() const override;
  std::shared_ptr<const types::Gold> prepare(const Question& question) const override;
  /// Warns once of data sources in reward.by_source that no row has.
  std::vector<Verdict> judge(std::span<const Sample> samples, const Occasion& occasion = {}) const override;
  const std::vector<std::string>& score_names() const override;
  std::vector<double> score_weights(const RuleWeights& rule_weights) const override;
  bool is_rule() const override { return command_ == kNone; }
  bool wants_rows() const override;
  std::optional<JudgeReport> take_report() const override;
  void log_to(const std::filesystem::path& file) const override;
  void show_log() const override;
  /// Returns whether any verifier finds the answers equal; both answer one prompt.
  bool same_answer(std::string_view one, std::string_view other) const noexcept override;

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t index_of(std::string_view data_source) const;
  std::size_t num_rule_scores() const;
  /// Extends a verifier's scores to all score_names(), with NaN for scores of others.
  void widen(Verdict& verdict, std::size_t verifier) const;

  std::vector<std::unique_ptr<Verifier>> verifiers_;  ///< first: reward.verifier's
  std::map<std::string, std::size_t, std::less<>> of_source_;
  std::size_t command_ = kNone;  ///< index in verifiers_
  mutable std::vector<std::string> names_;
  mutable std::map<std::string, bool, std::less<>> seen_;  ///< whether rows have the sources of reward.by_source
};

/// Creates a run's verifier: that of options.word, or a SourceVerifier with options.by_source.
std::unique_ptr<Verifier> make_verifier(const VerifierOptions& options);

}  // namespace qrl::tasks
