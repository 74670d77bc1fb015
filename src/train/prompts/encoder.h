#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/chat_template.h"
#include "data/conversation.h"
#include "data/row.h"
#include "data/tokenizer.h"
#include "train/recipe/recipe.h"
#include "types/prompt.h"

namespace qrl::train {

/// Encodes prompts for the model. Puts a prompt's text into data.prompt_template, then into the chat template. Added
/// tokens in the text are parsed only with data.parse_special_tokens.
class PromptEncoder {
 public:
  PromptEncoder(const DataRecipe& recipe, const data::Tokenizer& tokenizer);
  /// Encodes a text. `system`: the row's system message, which replaces data.system_prompt; "" if the row has none.
  /// Input errors name `where`.
  std::vector<types::TokenId> encode(std::string_view text, std::string_view system = {},
                                     const std::string& where = "a prompt") const;
  /// Encodes a conversation that the model continues. Prepends data.system_prompt if the conversation has no system
  /// message. A single question, with or without a system message, is encoded like a text. Input errors name `where`.
  std::vector<types::TokenId> encode(data::Conversation conversation, const std::string& where) const;
  const data::ChatTemplate& chat() const { return chat_; }
  /// Adds the tools and the system text of an environment to all later prompts. Rows with tools keep their own.
  void show(std::vector<nlohmann::ordered_json> tools, std::string system);
  /// Throws an input error that names `where` if the template does not support the system message.
  void require_system_fits(std::string_view system, const std::string& where) const;

 private:
  std::vector<types::TokenId> rendered(const data::Conversation& conversation, const std::string& where) const;
  std::string with_added_system(std::string_view system) const;

  const DataRecipe& recipe_;
  data::Tokenizer tokenizer_;
  data::ChatTemplate chat_;
  std::string before_, after_;  ///< text of data.prompt_template before and after {prompt}
  std::vector<nlohmann::ordered_json> tools_;
  std::string added_system_;
};

/// Encodes a data row's prompt. Input errors name `where`.
std::vector<types::TokenId> encode_row(const PromptEncoder& encoder, const data::PromptRow& row,
                                       const std::string& where);

}  // namespace qrl::train
