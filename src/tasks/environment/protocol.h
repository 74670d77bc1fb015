// Owns the JSON lines between the run and an environment (docs/reference/environment-protocol.md).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/command/protocol.h"

namespace qrl::tasks {

inline constexpr std::size_t kMaxEnvironmentLine_bytes = std::size_t{4} << 20;

enum class EnvironmentStyle : std::uint8_t { chat, continues };
constexpr std::string_view words_of(EnvironmentStyle) { return "chat | continue"; }
enum class ObservationRole : std::uint8_t { tool, user };
constexpr std::string_view words_of(ObservationRole) { return "tool | user"; }

struct EnvironmentReady : NamedScores {
  std::string tools;   ///< JSON list of the tools' schemas; "": none
  std::string system;  ///< text for the system message; "": none
  bool owns_rows = false;
  std::int64_t num_train_rows = 0, num_val_rows = 0;
  std::vector<std::string> notes;
};

/// Throws an input error that names the fault.
EnvironmentReady read_environment_ready(const std::string& ready);

struct EnvironmentHello {
  std::uint64_t seed = 0;
  std::string run, style, role;
  std::int64_t max_turns = 0, sessions = 0;
};
/// Returns a worker's first line; `first` may be null.
std::string environment_hello(const EnvironmentHello& hello, const Question* first);

/// Says what the run sends: the request's name on the wire.
enum class EnvironmentRequest : std::uint8_t { row, start, step, end };

/// Returns a request's line; `fields` are those after the id, without braces.
std::string request_line(EnvironmentRequest request, std::uint64_t id, std::string_view fields);
std::string row_fields(std::string_view set, std::int64_t index);
std::string start_fields(std::string_view question, std::uint64_t seed, std::int64_t step, bool is_evaluation);
std::string step_fields(std::int64_t turn, std::string_view text, std::string_view stop, bool is_last);
std::string end_fields(std::string_view why);

struct EnvironmentMessage {
  std::string role;  ///< "": environment.role
  std::string content;
  std::string name;  ///< of the tool; "": unknown
  std::string call;  ///< JSON of the call that it answers, {"name", "arguments"}; "": unknown
};

struct EnvironmentAnswer {
  enum class Kind : std::uint8_t { goes_on, done, error, row };
  Kind kind = Kind::goes_on;
  std::vector<EnvironmentMessage> messages;  ///< the observation
  std::vector<double> scores;                ///< of this step, in the order of EnvironmentReady; NaN: none
  std::string calls;                         ///< JSON list of what was called; "": none
  std::int64_t num_calls = 0, num_call_errors = 0;
  std::string closing;    ///< done: JSON with the answer's outcome, reason and extracted
  std::string text;       ///< error: why; row: its JSON
  std::string traceback;  ///< for the log; "": none
};

/// Reads the answer to a request. Returns none if the protocol does not allow it.
std::optional<EnvironmentAnswer> read_environment_answer(EnvironmentRequest request,
                                                         const nlohmann::ordered_json& answer,
                                                         const EnvironmentReady& ready, bool is_chat);

}  // namespace qrl::tasks
