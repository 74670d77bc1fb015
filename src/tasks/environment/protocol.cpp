#include "tasks/environment/protocol.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "state/json.h"

namespace qrl::tasks {

namespace {

constexpr const char* kKey = "environment.command";
constexpr std::size_t kMaxScoresOfEnvironment = 64, kMaxMessages = 64;
constexpr std::int64_t kMaxRows = 1'000'000;

const char* name_of_request(EnvironmentRequest request) {
  switch (request) {
    case EnvironmentRequest::row:
      return "row";
    case EnvironmentRequest::start:
      return "start";
    case EnvironmentRequest::step:
      return "step";
    case EnvironmentRequest::end:
      break;
  }
  return "end";
}

std::int64_t read_num_rows(const nlohmann::ordered_json& rows, const char* set) {
  const nlohmann::ordered_json count = rows.value(set, nlohmann::ordered_json(0));
  QRL_REQUIRE(count.is_number_integer() && count >= 0 && count <= kMaxRows, kKey,
              std::string("rows.") + set + " of the ready line from 0 to " + std::to_string(kMaxRows), count.dump());
  return count.get<std::int64_t>();
}

/// Reads a text that may be missing or null; returns false for other values.
bool read_optional_text(const nlohmann::ordered_json& object, const char* name, std::string& text) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return true;
  if (!found->is_string()) return false;
  text = found->get<std::string>();
  return true;
}

bool read_messages(const nlohmann::ordered_json& list, std::vector<EnvironmentMessage>& messages) {
  if (!list.is_array() || list.empty() || list.size() > kMaxMessages) return false;
  for (const nlohmann::ordered_json& one : list) {
    EnvironmentMessage& message = messages.emplace_back();
    if (!one.is_object() || !one.contains("content") || !one["content"].is_string()) return false;
    if (!read_optional_text(one, "content", message.content) || !read_optional_text(one, "role", message.role) ||
        !read_optional_text(one, "name", message.name))
      return false;
    if (!message.role.empty() && message.role != "tool" && message.role != "user") return false;
    const auto call = one.find("call");
    if (call == one.end() || call->is_null()) continue;
    if (!call->is_object() || !call->contains("name") || !(*call)["name"].is_string() || !call->contains("arguments"))
      return false;
    message.call = call->dump();
  }
  return true;
}

/// Reads `observation` or `observations`. Returns false if the protocol does not allow them.
bool read_observation(const nlohmann::ordered_json& answer, bool is_start, bool is_chat, EnvironmentAnswer& out) {
  const auto one = answer.find("observation"), several = answer.find("observations");
  if (several != answer.end())
    return one == answer.end() && !is_start && is_chat && read_messages(*several, out.messages);
  if (one == answer.end()) return false;
  if (one->is_null()) return is_start;
  if (!one->is_string()) return false;
  out.messages.push_back({{}, one->get<std::string>(), {}, {}});
  return true;
}

bool read_calls(const nlohmann::ordered_json& answer, EnvironmentAnswer& out) {
  const auto calls = answer.find("calls");
  if (calls == answer.end() || calls->is_null()) return true;
  if (!calls->is_array()) return false;
  for (const nlohmann::ordered_json& call : *calls) {
    if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return false;
    ++out.num_calls;
    if (const auto error = call.find("error"); error != call.end() && !error->is_null()) ++out.num_call_errors;
  }
  if (!calls->empty()) out.calls = calls->dump();
  return true;
}

/// Reads the scores of a step, and the outcome of a conversation that is done.
bool read_step_scores(const nlohmann::ordered_json& answer, const EnvironmentReady& ready, EnvironmentAnswer& out) {
  const bool has_scores = answer.contains("score") || answer.contains("scores");
  const bool has_outcome = answer.contains("outcome") || answer.contains("reason") || answer.contains("extracted");
  if (ready.scores.empty()) return !has_scores && !has_outcome;
  out.scores.assign(ready.scores.size(), std::numeric_limits<double>::quiet_NaN());
  const nlohmann::json sorted = answer;
  if (has_scores && !read_scores(sorted, ready, out.scores)) return false;
  if (out.kind != EnvironmentAnswer::Kind::done) return !has_outcome;
  if (!verdict_of(sorted, ready, std::vector<double>(ready.scores.size()), {})) return false;
  nlohmann::json closing = nlohmann::json::object();
  for (const char* name : {"outcome", "reason", "extracted"}) {
    if (sorted.contains(name)) closing[name] = sorted[name];
  }
  out.closing = closing.dump();
  return true;
}

}  // namespace

EnvironmentReady read_environment_ready(const std::string& text) {
  const nlohmann::ordered_json ready = state::parse_ordered_json(text, kKey);
  EnvironmentReady out;
  const nlohmann::ordered_json scores = ready.value("scores", nlohmann::ordered_json());
  QRL_REQUIRE(scores.is_null() || scores.is_array() || scores.is_object(), kKey,
              "scores of the ready line: a list of names, an object of names and weights, or null", scores.dump());
  static_cast<NamedScores&>(out) = read_named_scores(ready, kKey);
  QRL_REQUIRE(out.scores.size() <= kMaxScoresOfEnvironment, kKey, "at most 64 scores in the ready line",
              std::to_string(out.scores.size()));
  const nlohmann::ordered_json tools = ready.value("tools", nlohmann::ordered_json());
  QRL_REQUIRE(tools.is_null() || tools.is_array(), kKey, "tools of the ready line: a list of schemas, or null",
              tools.dump());
  std::vector<std::string> names;
  for (const nlohmann::ordered_json& tool : tools) {
    const bool is_tool = tool.is_object() && tool.contains("function") && tool["function"].is_object() &&
                         tool["function"].contains("name") && tool["function"]["name"].is_string();
    QRL_REQUIRE(is_tool, kKey, R"(tools of the form {"type":"function","function":{"name",…}} in the ready line)",
                base::quoted(tool.dump(), 200));
    names.push_back(tool["function"]["name"].get<std::string>());
    QRL_REQUIRE(std::ranges::count(names, names.back()) == 1, kKey, "each tool once in the ready line",
                base::quoted(names.back()) + " twice");
  }
  if (!names.empty()) out.tools = tools.dump();
  QRL_REQUIRE(read_optional_text(ready, "system", out.system), kKey, "a text for system in the ready line",
              ready["system"].dump());
  const nlohmann::ordered_json rows = ready.value("rows", nlohmann::ordered_json());
  QRL_REQUIRE(rows.is_null() || rows.is_object(), kKey, R"(rows of the ready line: null, or {"train": N, "val": N})",
              rows.dump());
  out.owns_rows = rows.is_object();
  if (out.owns_rows) {
    out.num_train_rows = read_num_rows(rows, "train");
    out.num_val_rows = read_num_rows(rows, "val");
    QRL_REQUIRE(out.num_train_rows > 0, kKey, "rows.train of 1 or more in the ready line", rows.dump());
  }
  out.notes = read_notes(ready, kKey);
  return out;
}

std::string environment_hello(const EnvironmentHello& hello, const Question* first) {
  std::string line = R"({"hello":{"protocol":1,"task":"environment","seed":)" + std::to_string(hello.seed);
  append_text(hello.run, line += ",\"run\":");
  line += R"(,"style":")" + hello.style + R"(","role":")" + hello.role + R"(","max_turns":)" +
          std::to_string(hello.max_turns) + ",\"sessions\":" + std::to_string(hello.sessions) + ",\"first\":";
  line += first == nullptr ? "null" : "{" + question_fields(*first, true) + "}";
  return line + "}}\n";
}

std::string request_line(EnvironmentRequest request, std::uint64_t id, std::string_view fields) {
  std::string line = std::string("{\"") + name_of_request(request) + "\":{\"id\":" + std::to_string(id) + ",";
  line += fields;
  return line + "}}\n";
}

std::string row_fields(std::string_view set, std::int64_t index) {
  return R"("set":")" + std::string(set) + R"(","index":)" + std::to_string(index);
}

std::string start_fields(std::string_view question, std::uint64_t seed, std::int64_t step, bool is_evaluation) {
  return "\"seed\":" + std::to_string(seed) + ",\"step\":" + std::to_string(step) +
         (is_evaluation ? ",\"eval\":true," : ",\"eval\":false,") + std::string(question);
}

std::string step_fields(std::int64_t turn, std::string_view text, std::string_view stop, bool is_last) {
  std::string fields = "\"turn\":" + std::to_string(turn) + ",\"text\":";
  append_text(text, fields);
  return fields + R"(,"stop":")" + std::string(stop) + (is_last ? R"(","last":true)" : R"(","last":false)");
}

std::string end_fields(std::string_view why) { return R"("why":")" + std::string(why) + "\""; }

std::optional<EnvironmentAnswer> read_environment_answer(EnvironmentRequest request,
                                                         const nlohmann::ordered_json& answer,
                                                         const EnvironmentReady& ready, bool is_chat) {
  EnvironmentAnswer out;
  if (!read_optional_text(answer, "traceback", out.traceback)) return std::nullopt;
  if (const auto error = answer.find("error"); error != answer.end()) {
    out.kind = EnvironmentAnswer::Kind::error;
    if (!error->is_string()) return std::nullopt;
    out.text = error->get<std::string>();
    return out;
  }
  if (request == EnvironmentRequest::row) {
    const auto row = answer.find("row");
    if (row == answer.end() || !row->is_object()) return std::nullopt;
    out.kind = EnvironmentAnswer::Kind::row;
    out.text = row->dump();
    return out;
  }
  const auto done = answer.find("done");
  if (done != answer.end() && !done->is_boolean()) return std::nullopt;
  const bool is_done = done != answer.end() && done->get<bool>(), is_start = request == EnvironmentRequest::start;
  if (is_done) {
    out.kind = EnvironmentAnswer::Kind::done;
    for (const char* name : {"observation", "observations"}) {
      if (const auto found = answer.find(name); found != answer.end() && !found->is_null()) return std::nullopt;
    }
    if (is_start) return std::nullopt;
  } else if (request == EnvironmentRequest::end || !read_observation(answer, is_start, is_chat, out)) {
    return std::nullopt;
  }
  if (!read_calls(answer, out) || !read_step_scores(answer, ready, out)) return std::nullopt;
  return out;
}

}  // namespace qrl::tasks
