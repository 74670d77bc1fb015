#include "data/messages.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"
#include "state/json.h"

namespace qrl::data {

using Json = nlohmann::ordered_json;

namespace {

bool holds_no_text(std::string_view text) { return base::trimmed(text).empty(); }

/// Joins the text of `content`: a string, null, or a list of {"type": "text", "text"}.
std::string content_of(const Json& message, const std::string& where) {
  const auto found = message.find("content");
  if (found == message.end() || found->is_null()) return {};
  if (found->is_string()) return found->get<std::string>();
  QRL_REQUIRE(found->is_array(), where, "`content` to be a string or a list of parts", found->type_name());
  std::string text;
  for (const Json& part : *found) {
    const bool is_text = part.is_object() && part.value("type", Json()) == "text" && part.contains("text");
    QRL_REQUIRE(is_text && part["text"].is_string(), where,
                "parts of `content` to have the form {\"type\": \"text\", \"text\"}", "a part of a different form",
                "remove parts that are not text, such as images");
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

/// Wraps a call as {"type": "function", "function": {…}} (OpenAI's form) if necessary.
Json read_tool_call(const Json& call, const std::string& where) {
  const bool is_wrapped = call.is_object() && call.contains("function");
  const Json& function = is_wrapped ? call["function"] : call;
  const bool is_call = function.is_object() && function.contains("name") && function["name"].is_string() &&
                       function.contains("arguments");
  QRL_REQUIRE(is_call, where, "`tool_calls` to have the form {\"name\", \"arguments\"}", "a call of a different form");
  return is_wrapped ? call : Json{{"type", "function"}, {"function", call}};
}

Message read_message(const Json& value, const std::string& where) {
  const bool has_role = value.is_object() && value.contains("role") && value["role"].is_string();
  QRL_REQUIRE(has_role, where, "messages with a `role`", "a message without a `role`");
  Message message{value["role"].get<std::string>(), content_of(value, where), value};
  constexpr std::string_view kRoles[] = {"system", "user", "assistant", "tool"};
  QRL_REQUIRE(std::ranges::find(kRoles, message.role) != std::end(kRoles), where,
              "a `role` of system, user, assistant or tool", base::quoted(message.role));
  bool may_be_empty = message.role == "tool";
  // Reads the reasoning under any of its usual names.
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto thought = value.find(name);
    if (thought == value.end() || thought->is_null()) continue;
    QRL_REQUIRE(thought->is_string(), where, "`" + std::string(name) + "` to be a string", thought->type_name());
    message.fields["reasoning_content"] = *thought;
    if (!message.fields.contains("thinking")) message.fields["thinking"] = *thought;
    may_be_empty = may_be_empty || !thought->empty();
    break;
  }
  if (const auto calls = message.fields.find("tool_calls"); calls != message.fields.end() && !calls->is_null()) {
    QRL_REQUIRE(calls->is_array() && message.role == "assistant", where,
                "`tool_calls` as a list in an assistant message",
                calls->is_array() ? "a list in a message of role " + message.role : std::string(calls->type_name()));
    for (Json& call : *calls) call = read_tool_call(call, where);
    may_be_empty = may_be_empty || !calls->empty();
  }
  QRL_REQUIRE(may_be_empty || !holds_no_text(message.content), where,
              "a message of role " + message.role + " to contain text", "no text");
  return message;
}

std::vector<Json> read_tools(const Json& value, const std::string& where) {
  if (value.is_null()) return {};
  if (value.is_string()) {  // parquet and CSV store JSON as text
    const auto& text = value.get_ref<const std::string&>();
    if (holds_no_text(text)) return {};
    (void)state::parse_json(text, where + ": `tools`");
    return read_tools(Json::parse(text), where);
  }
  QRL_REQUIRE(value.is_array(), where, "`tools` to be a list, or a list as JSON text", value.type_name());
  return {value.begin(), value.end()};
}

}  // namespace

void append_text(Message& message, std::string_view text) {
  message.content += text;
  const auto content = message.fields.find("content");
  if (content == message.fields.end()) return;
  if (content->is_array()) content->push_back({{"type", "text"}, {"text", text}});
  else *content = message.content;
}

Conversation read_conversation(const Json& messages, const Json& tools, const std::string& name,
                               const std::string& where) {
  QRL_REQUIRE(messages.is_array() && !messages.empty(), where, "`" + name + "` to be a list of messages",
              messages.is_array() ? "an empty list" : messages.type_name());
  Conversation conversation;
  for (std::size_t i = 0; i < messages.size(); ++i)
    conversation.messages.push_back(read_message(messages[i], where + ": " + name + "[" + std::to_string(i) + "]"));
  conversation.tools = read_tools(tools, where);
  return conversation;
}

}  // namespace qrl::data
