// Owns the prompts that a user gives to generate: where they come from, and what a model takes of them. Knows nothing
// of sampling.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "train/session.h"

namespace qrl::app {

/// Where prompts come from; one of the three is set.
struct PromptArguments {
  std::vector<std::string> texts;  ///< --prompt
  std::string file;                ///< --file
  std::string input;               ///< "-": standard input is a prompt
};

struct GivenPrompt {
  std::string text, system;
  std::string where;  ///< for messages
  std::vector<types::TokenId> tokens;
  std::shared_ptr<const data::Conversation> conversation = {};  ///< of several turns; else null
};

/// An input error unless exactly one way is given. `model` is for the message.
void check_prompts(const PromptArguments& arguments, const std::string& model);

/// Reads the texts, without tokens. Input errors name where an empty text or one that is not UTF-8 stands.
std::vector<GivenPrompt> read_prompts(const PromptArguments& arguments, const config::DataRecipe& recipe);

/// Makes tokens of the texts. The model's positions are their only bound.
void encode(std::vector<GivenPrompt>& prompts, const config::DataRecipe& recipe, const train::Policy& policy);
std::int64_t longest_of(const std::vector<GivenPrompt>& prompts);  ///< in tokens

/// Says once when a prompt lacks the line break with which the prompts of the recipe's task end: a model that learned
/// the task never saw one without.
void hint_at_line_break(const std::vector<GivenPrompt>& prompts, const config::Recipe& recipe);

}  // namespace qrl::app
