// Owns the interface of verifiers: responses in, verdicts with named scores out, a batch at a time. Knows nothing of
// tokens, shaping or training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/recipe.h"
#include "reward/verdict.h"
#include "types/prompt.h"

namespace qrl::tasks {

using reward::Outcome;
using reward::Verdict;

/// What a verifier is told of a prompt.
struct Question {
  std::string_view ground_truth;
  std::string_view prompt = {};             ///< its text, before the template; "": not known
  std::string_view data_source = {};        ///< "": not known
  std::string_view ground_truth_json = {};  ///< the row's own value; "": ground_truth is a text
  std::string_view row = {};                ///< the data row as a JSON object; "": none
};

/// A response and what it is judged by. Samples of one prompt share its gold, and stand beside each other in a batch.
struct Sample {
  std::string_view response;
  const types::Gold* gold = nullptr;  ///< of the verifier that judges; null: one that it could not prepare
  std::int64_t group = 0;             ///< of its batch; a group's samples stand beside each other
  types::StopReason stop = types::StopReason::eos;
  std::span<const types::TokenId> tokens = {};         ///< of the response; empty: not known
  std::span<const types::TokenId> prompt_tokens = {};  ///< of its prompt after the template; empty: not known
  std::int64_t index = 0;                              ///< its number among all samples of the data
};

/// When and for whom a batch is judged.
struct Occasion {
  std::int64_t step = 0;
  bool is_evaluation = false;
  /// More errors than these end the run at once (a guard error), and so do errors alone among its first responses;
  /// nothing: they never do.
  std::optional<std::int64_t> max_errors = {};
  std::function<void()> pause = {};  ///< called now and then while a verifier waits; what it throws ends the judging
};

/// What judging cost, and how it failed, since this was last asked.
struct JudgeReport {
  std::int64_t num_rows = 0, num_samples = 0, num_restarts = 0;
  std::int64_t num_timeouts = 0, num_crashes = 0, num_protocol = 0, num_errors = 0;
  double seconds = 0;
  std::vector<double> row_ms;  ///< of each row from when a worker got it to its answer
};

/// Thread-safe. A run makes one, and asks it whole batches: a step's samples, or an evaluation's.
class Verifier {
 public:
  virtual ~Verifier() = default;
  /// Throws an input error when the ground truth (of `where`) is not one this verifier can judge by: checked at load.
  virtual void check_ground_truth(const Question& question, const std::string& where) const = 0;
  /// Throws what check_ground_truth left for later: called when all data are read.
  virtual void finish_checks() const {}
  /// Reads a ground truth, once a prompt. Null where the verifier cannot judge by it, which check_ground_truth refuses.
  virtual std::shared_ptr<const types::Gold> prepare(const Question& question) const = 0;
  /// A verdict for each sample, in order, each with as many scores as score_names(). Uses the process's threads; may be
  /// called from one of them.
  virtual std::vector<Verdict> judge(std::span<const Sample> samples, const Occasion& occasion = {}) const = 0;
  /// The names of a verdict's scores, fixed for the verifier's life.
  virtual const std::vector<std::string>& score_names() const = 0;
  /// What 1 of each of its scores is worth by `recipe`. A response's score is the sum of its scores times these, in
  /// their order, in double; a score that is NaN does not apply, and is left out.
  virtual std::vector<double> score_weights(const config::RewardRecipe& recipe) const = 0;
  /// Whether all verdicts are those of rules: without drops, with the scores of RuleVerifier alone.
  virtual bool is_rule() const { return false; }
  /// Whether questions need the row they stand in.
  virtual bool wants_rows() const { return false; }
  /// Nothing where judging has no cost of its own.
  virtual std::optional<JudgeReport> take_report() const { return std::nullopt; }
  /// Where a verifier with something to log does that; it keeps what came before.
  virtual void log_to(const std::filesystem::path& /*file*/) const {}
  /// Where a verifier with something to log writes it to this process's standard error from here on.
  virtual void show_log() const {}
  /// Whether two answers that it extracted (Verdict::extracted) are the same answer, whatever the ground truth. Bounded
  /// work. Here: the same text.
  virtual bool same_answer(std::string_view one, std::string_view other) const noexcept { return one == other; }
};

/// A verifier that judges each sample by itself, on all threads. Its scores are `correct`, `wrong`, `format` and
/// `partial`: 1 or 0 for a right answer, for any other, for a wrong one in the right form, and its partial credit.
class RuleVerifier : public Verifier {
 public:
  /// Judges one response. Never throws, and its work is bounded whatever the bytes.
  virtual Verdict judge_one(std::string_view response, const types::Gold& gold) const noexcept = 0;

  std::vector<Verdict> judge(std::span<const Sample> samples, const Occasion& occasion = {}) const final;
  const std::vector<std::string>& score_names() const final;
  std::vector<double> score_weights(const config::RewardRecipe& recipe) const final;  ///< reward.NAME
  bool is_rule() const final { return true; }
};

/// A field of a row that holds a part of a ground truth, for rows without a field for the whole (`qrl-train judge`).
struct GroundTruthField {
  std::string_view name;
  bool is_text = false;      ///< its value counts as a text, else as the JSON that it is
  bool is_optional = false;  ///< may be missing or null
};

/// A word of reward.verifier.
struct VerifierChoice : config::Choice {
  std::unique_ptr<Verifier> (*make)(const config::Recipe& recipe) = nullptr;
  std::string_view data_hold;                              ///< "grids": what the data of this verifier hold
  std::vector<GroundTruthField> ground_truth_fields = {};  ///< empty: the ground truth is one field
};

/// The verifier of that word, of reward.verifier's list, with the recipe's settings.
std::unique_ptr<Verifier> make_verifier_of(const config::Recipe& recipe, const std::string& word);
/// Who judges a recipe's responses: reward.verifier, for some data sources those of reward.by_source.
std::unique_ptr<Verifier> make_verifier(const config::Recipe& recipe);

/// check_ground_truth for data of a recipe: its error also says that reward.verifier chose the verifier, and what else
/// that key may be.
void check_recipe_gold(const Verifier& verifier, const config::Recipe& recipe, const Question& question,
                       const std::string& where);

}  // namespace qrl::tasks
