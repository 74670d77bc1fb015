// Owns the JSON lines between the run and a reward command (docs/reference/reward-protocol.md).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tasks/verifier.h"

namespace qrl::tasks {

inline constexpr const char* kCommandKey = "reward.command";

/// Holds the scores that a program announces in its ready line.
struct NamedScores {
  std::vector<std::string> scores;  ///< names, in the program's order
  std::vector<double> weights;      ///< default weight of each score
};

/// Reads `scores` of a ready line; "": none. Throws an input error that names `key`.
NamedScores read_named_scores(const nlohmann::ordered_json& ready, const std::string& key);

/// Returns the scores' weights, with those of `given` (reward.weights) in place of the program's. Throws an input error
/// for a name that the program lacks, and if all weights are 0.
std::vector<double> chosen_weights(const NamedScores& named, const std::map<std::string, double>& given);

/// Returns the texts of `notes` in a ready line. Throws an input error that names `key`.
std::vector<std::string> read_notes(const nlohmann::ordered_json& ready, const std::string& key);

struct CommandReady : NamedScores {
  bool wants_row = false;
  bool wants_tokens = false;
  bool wants_prompt_tokens = false;
  bool wants_index = false;
  bool checks_gold = false;
  bool takes_groups = false;
  std::vector<Read> reads;
  std::vector<std::string> notes;  ///< what the command says of its start
};

/// Throws an input error that names the fault.
CommandReady read_ready(const std::string& ready);

/// Returns a question's JSON fields without braces: {"prompt":…,"ground_truth":…,"data_source":…}, and "row" if
/// `with_row`.
std::string question_fields(const Question& question, bool with_row);

/// Returns a worker's first line; `first` may be null.
std::string hello_line(std::uint64_t seed, const std::string& run, const Question* first);

/// Appends `text` as a JSON string, with U+FFFD for non-UTF-8 bytes.
void append_text(std::string_view text, std::string& line);

void append_ids(std::span<const types::TokenId> ids, std::string& line);

/// Appends a response's fields: "response", "stop", "response_tokens". Adds "tokens" and "index" if the command wants
/// them, and "verdict" if `before` is not null.
void append_response(const Sample& sample, const CommandReady& ready, const Verdict* before, std::string& line);

/// Reads an answer's `score` or `scores`; NaN: null or missing. Returns false if the protocol does not allow them.
bool read_scores(const nlohmann::json& answer, const NamedScores& named, std::vector<double>& scores);

/// Returns the verdict of an answer with these scores, like read_answer.
std::optional<Verdict> verdict_of(const nlohmann::json& answer, const NamedScores& named, std::vector<double> scores,
                                  double correct_at);

/// Returns a verdict for a sample that could not be judged.
Verdict failed_verdict(std::string_view reason, std::string detail);

/// Returns an answer's verdict, with NaN for missing scores. Returns none if the protocol does not allow the answer.
/// Sets verifier_error if the answer has an error or no score applies. The outcome is the answer's own, else what a
/// given `correct_at` says of the first score, else a score named `correct` or `acc` (1 or more: correct).
std::optional<Verdict> read_answer(const nlohmann::json& answer, const CommandReady& ready, double correct_at);

}  // namespace qrl::tasks
