#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace qrl::data {

struct Message {
  std::string role;                    ///< system, user, assistant or tool
  std::string content;                 ///< joined text parts; "": none
  nlohmann::ordered_json fields = {};  ///< the whole message as JSON in OpenAI's form, which templates get
  bool has_parts() const { return fields.contains("content") && fields["content"].is_array(); }
};

struct Conversation {
  std::vector<Message> messages;
  std::vector<nlohmann::ordered_json> tools = {};
  std::string before = {}, after = {};  ///< text that the recipe puts before and after the last message
};

/// Appends to a message's text, also where templates read it.
void append_text(Message& message, std::string_view text);

/// Reads `messages` and `tools`. `messages` is a list of {"role", "content"}; an assistant's message may also have
/// "reasoning_content" and "tool_calls". `tools` is null, a list, or a list's JSON text. Throws an input error that
/// names `where` for other roles, empty messages, and content that is not text.
Conversation read_conversation(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                               const std::string& name, const std::string& where);

}  // namespace qrl::data
