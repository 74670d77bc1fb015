#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/conversation.h"
#include "train/policy/policy.h"
#include "train/recipe/recipe.h"

namespace qrl::app {

/// Holds where the prompts come from. Exactly one member is set.
struct PromptArguments {
  std::vector<std::string> texts;
  std::string file;
  std::string input;  ///< "-": standard input is a single prompt
};

struct GivenPrompt {
  std::string text, system;
  std::string where;
  std::vector<types::TokenId> tokens;
  std::shared_ptr<const data::Conversation> conversation = {};  ///< null for a single turn
};

/// Throws an input error unless exactly one source is given.
void check_prompts(const PromptArguments& arguments, const std::string& model);

/// Reads the prompts. Throws an input error that names the source of an empty or non-UTF-8 prompt.
std::vector<GivenPrompt> read_prompts(const PromptArguments& arguments, const train::DataRecipe& recipe);

/// Tokenizes the prompts. Throws an input error if a prompt and its response exceed the model's positions.
void encode(std::vector<GivenPrompt>& prompts, const train::DataRecipe& recipe, const train::Policy& policy);
std::int64_t longest_of(const std::vector<GivenPrompt>& prompts);  ///< tokens of the longest prompt

/// Logs a hint if the recipe's task generator ends its prompts in a newline, but a given prompt does not end so.
void hint_at_line_break(const std::vector<GivenPrompt>& prompts, const train::Recipe& recipe);

}  // namespace qrl::app
