#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/option.h"
#include "reward/verdict.h"
#include "types/prompt.h"

namespace qrl::tasks {

class Environment;
struct VerifierChoice;
using reward::Outcome;
using reward::Verdict;

struct Question {
  std::string_view ground_truth;
  std::string_view prompt = {};             ///< text without the chat template; "": unknown
  std::string_view data_source = {};        ///< "": unknown
  std::string_view ground_truth_json = {};  ///< the row's value as JSON; "": the value is a string
  std::string_view row = {};                ///< the data row as a JSON object; "": none
};

/// Holds a response and the data to judge it. Samples of one prompt are adjacent and share its gold.
struct Sample {
  std::string_view response;
  const types::Gold* gold = nullptr;  ///< result of the judging verifier's `prepare`, or null
  std::int64_t group = 0;             ///< group index within the batch
  types::StopReason stop = types::StopReason::eos;
  std::span<const types::TokenId> tokens = {};         ///< empty: unknown
  std::span<const types::TokenId> prompt_tokens = {};  ///< tokens with the chat template; empty: unknown
  /// `rollout.n` · prompt index + index of the response in its group.
  std::int64_t index = 0;
};

struct JudgeContext {
  std::int64_t step = 0;
  bool is_evaluation = false;
  /// Limit on verifier errors. `judge` throws a guard error beyond the limit, or if all of the first 16 responses have
  /// errors.
  std::optional<std::int64_t> max_errors = {};
  std::function<void()> pause = {};  ///< called regularly while a verifier waits; an exception ends `judge`
};

/// Holds counts and durations of judging since the last report.
struct JudgeReport {
  std::int64_t num_rows = 0, num_samples = 0, num_restarts = 0;
  std::int64_t num_timeouts = 0, num_crashes = 0, num_protocol = 0, num_errors = 0;
  double seconds = 0;
  std::vector<double> row_ms;
};

/// Names what a program reads of a row, and what it gets for that, in words; no words: nothing.
using Read = std::pair<std::string, std::optional<std::string>>;

enum class RewardRows : std::uint8_t { sample, group };
constexpr std::string_view words_of(RewardRows) { return "sample | group"; }
enum class OnVerifierError : std::uint8_t { drop, wrong };
constexpr std::string_view words_of(OnVerifierError) { return "drop | wrong"; }

/// Holds the keys of a rule verifier's scores, which tasks/keys.h declares.
struct RuleWeights {
  double correct = 1, wrong = 0, format = 0, partial = 0;
};

/// Is the score from which a response is correct, if the program's answer has no outcome. Another value was chosen, so
/// that the score gives an outcome.
inline constexpr double kUsualCorrectAt = 1;

/// Describes the user's program (command/verifier.cpp). tasks/keys.h declares the members before `max_error_fraction`.
struct CommandOptions {
  std::vector<std::string> argv = {};           ///< reward.command
  std::string folder = {};                      ///< absolute path; default: folder of the recipe that sets `argv`
  std::vector<std::string> env = {};            ///< environment variables passed on, besides those that programs need
  config::Selected<VerifierChoice> after = {};  ///< a verifier that judges first; empty: none
  std::int64_t workers = 0;                     ///< processes; 0: half the process's threads, at least 1
  double timeout_s = 10;                        ///< limit per row, from its arrival at the worker
  double start_timeout_s = 60;                  ///< limit per worker, until its `ready` line
  std::int64_t memory_mb = 0;                   ///< MiB of address space per worker; 0: no limit
  std::int64_t in_flight = 1;                   ///< rows per worker at once
  std::optional<RewardRows> rows = {};          ///< none: the program's own choice
  std::map<std::string, double> weights = {};   ///< weights of the program's scores, instead of its defaults
  double correct_at = kUsualCorrectAt;
  OnVerifierError on_error = OnVerifierError::drop;
  double max_error_fraction = 0.05;  ///< only for error messages; JudgeContext::max_errors is the limit
  std::uint64_t seed = 0;
  std::string run_folder = {};  ///< "": none
};

std::int64_t num_workers(const CommandOptions& options);

struct VerifierOptions {
  config::Choices<VerifierChoice> known = {};
  std::string word = {};                              ///< reward.verifier, one of `known`
  std::map<std::string, std::string> by_source = {};  ///< data source → `word` of its verifier
  config::ParamValues own = {};                       ///< values of the verifiers' keys
  RuleWeights weights = {};
  CommandOptions command = {};
  std::shared_ptr<Environment> environment = {};  ///< null: responses are judged alone
};

/// Judges batches of responses; thread-safe, one per run.
class Verifier {
 public:
  virtual ~Verifier() = default;
  /// Throws an input error if the ground truth (from `where`) cannot be judged. Called when data is loaded.
  virtual void check_ground_truth(const Question& question, const std::string& where) const = 0;
  /// Throws the errors that check_ground_truth deferred. Called after all data is loaded.
  virtual void finish_checks() const {}
  /// Parses a ground truth once per prompt; null if check_ground_truth rejects it.
  virtual std::shared_ptr<const types::Gold> prepare(const Question& question) const = 0;
  /// Returns a verdict for each sample, in order, with score_names().size() scores each. Uses all the process's
  /// threads; may be called from one of them.
  virtual std::vector<Verdict> judge(std::span<const Sample> samples, const JudgeContext& context = {}) const = 0;
  virtual const std::vector<std::string>& score_names() const = 0;
  /// Returns the weights of a verdict's scores. A response's total is the weighted sum of its scores in this order, in
  /// fp64. NaN scores are skipped.
  virtual std::vector<double> score_weights(const RuleWeights& weights) const = 0;
  /// Returns whether all verdicts come from rules. Then no sample is dropped, and the scores are those of RuleVerifier.
  virtual bool is_rule() const { return false; }
  virtual bool wants_rows() const { return false; }
  /// Returns whether each question needs a ground truth.
  virtual bool needs_ground_truths() const { return true; }
  /// Returns whether verdicts use the ids of tokens. Known once the first question is prepared.
  virtual bool wants_tokens() const { return false; }
  /// Returns what the user's program reads. Known once the first question is prepared.
  virtual const std::vector<Read>& reads() const;
  virtual std::optional<JudgeReport> take_report() const { return std::nullopt; }
  /// Writes the log so far, if any, to `file`. Later text also goes there.
  virtual void log_to(const std::filesystem::path& /*file*/) const {}
  /// Writes the log, if any, to this process's standard error from now on.
  virtual void show_log() const {}
  /// Returns, with bounded work, whether two answers (Verdict::extracted) are equal regardless of the ground truth.
  virtual bool same_answer(std::string_view one, std::string_view other) const noexcept { return one == other; }
  /// Returns the environment that plays the run's conversations, or null.
  Environment* environment() const { return environment_.get(); }
  const std::shared_ptr<Environment>& shared_environment() const { return environment_; }
  void play_with(std::shared_ptr<Environment> environment) { environment_ = std::move(environment); }

 private:
  std::shared_ptr<Environment> environment_;
};

/// Judges each sample independently, on all threads. The scores `correct`, `wrong` (any other response) and `format` (a
/// wrong answer in the right form) are 0 or 1. `partial` is partial credit.
class RuleVerifier : public Verifier {
 public:
  /// The work is bounded for any input.
  virtual Verdict judge_one(std::string_view response, const types::Gold& gold) const noexcept = 0;

  std::vector<Verdict> judge(std::span<const Sample> samples, const JudgeContext& context = {}) const final;
  const std::vector<std::string>& score_names() const final;
  std::vector<double> score_weights(const RuleWeights& weights) const final;
  bool is_rule() const final { return true; }
};

/// Describes one of the fields that together replace a row's `ground_truth` (`qrl-train judge`).
struct GroundTruthField {
  std::string_view name;
  bool is_text = false;      ///< true: text, false: JSON
  bool is_optional = false;  ///< may be missing or null
};

/// Describes an allowed value of reward.verifier, and its verifier.
struct VerifierChoice : config::Option {
  std::unique_ptr<Verifier> (*make)(const VerifierOptions& options) = nullptr;
  std::string_view data_hold;                              ///< this verifier's data in error messages: "grids"
  std::vector<GroundTruthField> ground_truth_fields = {};  ///< fields that replace `ground_truth`; empty: none
};

/// `word` must be in options.known.
std::unique_ptr<Verifier> make_verifier_of(const VerifierOptions& options, const std::string& word);
/// Creates the verifier of options.word. If options.by_source is set, creates one that selects the verifier by data
/// source.
std::unique_ptr<Verifier> make_verifier(const VerifierOptions& options);

/// Calls check_ground_truth; adds the chosen verifier and its alternatives to the error.
void check_gold(const Verifier& verifier, const VerifierOptions& options, const Question& question,
                const std::string& where);

}  // namespace qrl::tasks
