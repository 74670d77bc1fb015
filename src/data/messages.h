// Owns what a conversation is, and how a row of a data file holds it. Knows no template.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace qrl::data {

struct Message {
  std::string role;                    ///< system, user, assistant or tool
  std::string content;                 ///< its text; of several parts joined; "": none
  nlohmann::ordered_json fields = {};  ///< as the row has it: OpenAI's members, of which templates are shown all
  bool has_parts() const { return fields.contains("content") && fields["content"].is_array(); }
};

struct Conversation {
  std::vector<Message> messages;
  std::vector<nlohmann::ordered_json> tools = {};  ///< definitions, as the row has them
  std::string before = {}, after = {};             ///< the recipe's own words around the last message
};

/// Reads `messages` (a list of {"role", "content"}, of an assistant also "reasoning_content" and "tool_calls") and
/// `tools` (null, a list, or the JSON text of one). Input errors name `where`: another role, a message that holds
/// nothing, what is no text.
Conversation read_conversation(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                               const std::string& name, const std::string& where);

}  // namespace qrl::data
