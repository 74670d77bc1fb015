// Owns the prompts of generate: reading them, and converting them to tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "train/session.h"

namespace qrl::app {

/// Holds the source of prompts; exactly one member is set.
struct PromptArguments {
  std::vector<std::string> texts;  ///< --prompt
  std::string file;                ///< --file
  std::string input;               ///< "-": standard input is one prompt
};

struct GivenPrompt {
  std::string text, system;
  std::string where;  ///< location for messages
  std::vector<types::TokenId> tokens;
  std::shared_ptr<const data::Conversation> conversation = {};  ///< null unless the prompt has several turns
};

/// Throws an input error unless exactly one source is given. `model` is for the message.
void check_prompts(const PromptArguments& arguments, const std::string& model);

/// Reads the texts, without tokens. Throws an input error with the location of an empty or non-UTF-8 text.
std::vector<GivenPrompt> read_prompts(const PromptArguments& arguments, const config::DataRecipe& recipe);

/// Tokenizes the texts. Only the model's number of positions limits their length.
void encode(std::vector<GivenPrompt>& prompts, const config::DataRecipe& recipe, const train::Policy& policy);
std::int64_t longest_of(const std::vector<GivenPrompt>& prompts);  ///< in tokens

/// Warns once if a prompt lacks the newline that ends the prompts of the recipe's task: a model trained on the task has
/// never seen that.
void hint_at_line_break(const std::vector<GivenPrompt>& prompts, const config::Recipe& recipe);

}  // namespace qrl::app
