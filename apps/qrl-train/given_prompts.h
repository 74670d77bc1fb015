#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "data/conversation.h"
#include "train/policy/policy.h"

namespace qrl::app {

/// Holds the source of prompts: exactly one member is set.
struct PromptArguments {
  std::vector<std::string> texts;  ///< --prompt
  std::string file;
  std::string input;  ///< "-": standard input is one prompt
};

struct GivenPrompt {
  std::string text, system;
  std::string where;  ///< source, for error messages
  std::vector<types::TokenId> tokens;
  std::shared_ptr<const data::Conversation> conversation = {};  ///< null for a single turn
};

/// Throws an input error unless exactly one source is given.
void check_prompts(const PromptArguments& arguments, const std::string& model);

/// Reads the prompts. Throws an input error for an empty or non-UTF-8 prompt, naming its source (`where`).
std::vector<GivenPrompt> read_prompts(const PromptArguments& arguments, const config::DataRecipe& recipe);

/// Tokenizes the prompts. Throws an input error if prompt and response exceed the model's positions.
void encode(std::vector<GivenPrompt>& prompts, const config::DataRecipe& recipe, const train::Policy& policy);
std::int64_t longest_of(const std::vector<GivenPrompt>& prompts);  ///< tokens of the longest prompt

/// Logs a hint if a given prompt does not end in a newline, but prompts of the recipe's task generator do.
void hint_at_line_break(const std::vector<GivenPrompt>& prompts, const config::Recipe& recipe);

}  // namespace qrl::app
