#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tasks/environment/environment.h"
#include "tasks/task.h"

namespace qrl::tasks {

namespace {

/// Stands for the scores that an environment gives. Its conversations have their verdicts before judging.
class EnvironmentVerifier final : public Verifier {
 public:
  explicit EnvironmentVerifier(std::shared_ptr<Environment> environment) : environment_(std::move(environment)) {}

  void check_ground_truth(const Question& /*question*/, const std::string& /*where*/) const override {}
  std::shared_ptr<const types::Gold> prepare(const Question& /*question*/) const override { return nullptr; }
  std::vector<Verdict> judge(std::span<const Sample> samples, const JudgeContext& /*context*/) const override {
    QRL_REQUIRE(samples.empty(), "reward.verifier: environment", "conversations, which the environment judges itself",
                std::to_string(samples.size()) + " responses alone", "qrl-train check env RECIPE plays a conversation");
    return {};
  }
  const std::vector<std::string>& score_names() const override { return environment_->start().scores; }
  std::vector<double> score_weights(const RuleWeights& /*weights*/) const override { return environment_->weights(); }
  bool needs_ground_truths() const override { return false; }

 private:
  std::shared_ptr<Environment> environment_;
};

}  // namespace

/// Has no `params`: config/keys/environment_keys.cpp has the environment's keys.
extern const Task environment_task;
const Task environment_task{{},
                            {{.word = "environment", .what = "the scores of the environment"},
                             [](const VerifierOptions& options) -> std::unique_ptr<Verifier> {
                               QRL_REQUIRE(options.environment != nullptr, "reward.verifier: environment",
                                           "a command that plays conversations, such as a run, eval or check env",
                                           "one that judges responses alone", "use qrl-train check env RECIPE");
                               return std::make_unique<EnvironmentVerifier>(options.environment);
                             },
                             "data that an environment judges",
                             {}}};

}  // namespace qrl::tasks
