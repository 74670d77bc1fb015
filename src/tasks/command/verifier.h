#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tasks/verifier.h"

namespace qrl::tasks {

/// Judges with the user's program over a pool of workers, started at the first checked question. A failed response gets
/// verifier_error; reward.on_error decides whether it is dropped or gets scores of 0.
class CommandVerifier final : public Verifier {
 public:
  /// Throws an input error if the program does not exist. `after`, unless null, judges each response first.
  CommandVerifier(const CommandOptions& options, std::unique_ptr<Verifier> after);
  ~CommandVerifier() override;

  void check_ground_truth(const Question& question, const std::string& where) const override;
  /// If the program checks golds, throws one input error for all golds that it rejects, naming the first 20.
  void finish_checks() const override;
  std::shared_ptr<const types::Gold> prepare(const Question& question) const override;
  /// Judges one batch at a time. Verdicts do not depend on the number of workers or their order.
  std::vector<Verdict> judge(std::span<const Sample> samples, const Occasion& occasion = {}) const override;
  const std::vector<std::string>& score_names() const override;
  std::vector<double> score_weights(const RuleWeights& rule_weights) const override;
  bool wants_rows() const override { return true; }
  std::optional<JudgeReport> take_report() const override;
  void log_to(const std::filesystem::path& file) const override;
  void show_log() const override;
  bool same_answer(std::string_view one, std::string_view other) const noexcept override;

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

/// Returns options.workers; for 0 half of the process's threads, at least 1.
std::int64_t num_workers(const CommandOptions& options);

}  // namespace qrl::tasks
