#pragma once

#include <memory>

#include "data/row.h"
#include "rollout/conversations.h"
#include "tasks/environment/environment.h"
#include "train/prompts/encoder.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

/// Returns what an environment needs of a prompt's row.
std::shared_ptr<const types::ConversationStart> conversation_start(const tasks::Question& question,
                                                                   const data::PromptRow& row);

/// Adds what the environment shows the model to all prompts of an encoder.
void show_in_prompts(const tasks::EnvironmentReady& ready, PromptEncoder& encoder);

/// Returns how the run plays conversations with the verifier's environment, whose prompts were read. Null without an
/// environment. Throws an input error if recipe, chat template and environment do not fit together.
std::shared_ptr<const rollout::ConversationSettings> conversation_settings(const Recipe& recipe,
                                                                           const data::Tokenizer& tokenizer,
                                                                           const tasks::Verifier& verifier);

/// Returns the most conversations that a process has open at once; 0 without an environment.
std::int64_t most_open_conversations(const Recipe& recipe);

}  // namespace qrl::train
