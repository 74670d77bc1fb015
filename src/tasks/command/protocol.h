// Owns the JSON lines between the run and a command that judges (docs/reference/reward-protocol.md): what is written,
// and what answers may be.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/verifier.h"

namespace qrl::tasks {

/// What the ready line of a command says.
struct CommandReady {
  std::vector<std::string> scores;  ///< names, in its order
  std::vector<double> weights;      ///< of each by default
  bool wants_row = false;
  bool wants_tokens = false;
  bool wants_prompt_tokens = false;
  bool wants_index = false;
  bool checks_gold = false;
  bool takes_groups = false;
};

/// Of the JSON object of a ready line. Throws an input error that names what is wrong with it.
CommandReady read_ready(const std::string& ready);

/// The fields of a question: {"prompt":…,"ground_truth":…,"data_source":…}, with "row" if wanted; without the braces.
std::string question_fields(const Question& question, bool with_row);

/// The first line to a worker; `first` may be null.
std::string hello_line(std::uint64_t seed, const std::string& run, const Question* first);

/// Appends `text` as a JSON string; bytes that are not UTF-8 become U+FFFD.
void append_text(std::string_view text, std::string& line);

/// Appends ids as a JSON list.
void append_ids(std::span<const types::TokenId> ids, std::string& line);

/// The fields of one response: "response", "stop", "response_tokens", "tokens" and "index" if wanted, and "verdict" of
/// the verifier that judged before.
void append_response(const Sample& sample, const CommandReady& ready, const Verdict* before, std::string& line);

/// A verdict as the answer has it; scores it lacks are NaN. Nothing where the protocol does not allow the answer. An
/// answer with an error, or with no score that applies, is a verdict with verifier_error.
std::optional<Verdict> read_answer(const nlohmann::json& answer, const CommandReady& ready, double correct_at);

}  // namespace qrl::tasks
