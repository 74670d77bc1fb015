// Declares the keys that fill the options of conversations.
#pragma once

#include "config/keys/sections.h"
#include "rollout/conversations.h"

namespace qrl::rollout {

/// Adds environment.max_turn_tokens.
void add_turn_key(config::Section<TurnOptions> environment);
/// Adds environment.judge.
void add_judge_key(config::Section<TurnOptions> environment);

}  // namespace qrl::rollout
