#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace qrl::data {

struct Message {
  std::string role;                    ///< system, user, assistant or tool
  std::string content;                 ///< joined text parts; "": none
  nlohmann::ordered_json fields = {};  ///< the whole message as JSON, in OpenAI's form, for templates
  bool has_parts() const { return fields.contains("content") && fields["content"].is_array(); }
};

struct Conversation {
  std::vector<Message> messages;
  std::vector<nlohmann::ordered_json> tools = {};  ///< tool definitions, as in the row
  std::string before = {}, after = {};             ///< the recipe's text around the last message
};

/// Reads `messages` (a list of {"role", "content"}, for an assistant also "reasoning_content" and "tool_calls") and
/// `tools` (null, a list, or the JSON text of one). Throws an input error that names `where` for other roles, empty
/// messages, and content that is not text.
Conversation read_conversation(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                               const std::string& name, const std::string& where);

}  // namespace qrl::data
