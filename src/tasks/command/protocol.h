// Owns the JSON lines between the run and a reward command (docs/reference/reward-protocol.md): writing requests, and
// reading and checking answers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/verifier.h"

namespace qrl::tasks {

struct CommandReady {
  std::vector<std::string> scores;  ///< names, in the command's order
  std::vector<double> weights;      ///< default weight of each score
  bool wants_row = false;
  bool wants_tokens = false;
  bool wants_prompt_tokens = false;
  bool wants_index = false;
  bool checks_gold = false;
  bool takes_groups = false;
};

/// Parses the JSON object of a ready line. Throws an input error that names the fault.
CommandReady read_ready(const std::string& ready);

/// Returns the fields of a question without the braces: {"prompt":…,"ground_truth":…,"data_source":…}, with "row" if
/// wanted.
std::string question_fields(const Question& question, bool with_row);

/// Returns the first line to a worker; `first` may be null.
std::string hello_line(std::uint64_t seed, const std::string& run, const Question* first);

/// Appends `text` as a JSON string; bytes that are not UTF-8 become U+FFFD.
void append_text(std::string_view text, std::string& line);

void append_ids(std::span<const types::TokenId> ids, std::string& line);

/// Appends the fields of a response: "response", "stop", "response_tokens". "tokens" and "index" are added if wanted,
/// and "verdict" if another verifier judged before.
void append_response(const Sample& sample, const CommandReady& ready, const Verdict* before, std::string& line);

/// Reads the verdict of an answer; missing scores are NaN. Returns nothing if the protocol does not allow the answer.
/// An answer with an error, or without an applicable score, becomes a verdict with verifier_error.
std::optional<Verdict> read_answer(const nlohmann::json& answer, const CommandReady& ready, double correct_at);

}  // namespace qrl::tasks
