// Owns the verifier that has a program of the user judge: questions and responses out, verdicts in, over a pool of
// workers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tasks/verifier.h"

namespace qrl::tasks {

/// Starts its first worker at the first question it is told of, which that worker is told of, too. A response whose
/// judging failed has a verdict with verifier_error, dropped with reward.on_error drop, else with scores of 0.
class CommandVerifier final : public Verifier {
 public:
  /// Throws an input error when the program is not there. `after`: judges each response first; may be null.
  CommandVerifier(const config::Recipe& recipe, std::unique_ptr<Verifier> after);
  ~CommandVerifier() override;

  void check_ground_truth(const Question& question, const std::string& where) const override;
  /// Where the program checks golds: all that it refuses, the first 20 of them by name.
  void finish_checks() const override;
  std::shared_ptr<const types::Gold> prepare(const Question& question) const override;
  /// One batch at a time. Verdicts do not depend on the number of workers, or on who answered when.
  std::vector<Verdict> judge(std::span<const Sample> samples, const Occasion& occasion = {}) const override;
  const std::vector<std::string>& score_names() const override;
  std::vector<double> score_weights(const config::RewardRecipe& recipe) const override;
  bool wants_rows() const override { return true; }
  std::optional<JudgeReport> take_report() const override;
  void log_to(const std::filesystem::path& file) const override;
  void show_log() const override;
  bool same_answer(std::string_view one, std::string_view other) const noexcept override;

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

/// Workers of a command: reward.workers, or half the process's threads, 1 at least.
std::int64_t num_workers(const config::RewardRecipe& recipe);

}  // namespace qrl::tasks
