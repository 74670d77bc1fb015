// Owns the keys of who judges responses and what their scores are worth.
#pragma once

#include <vector>

#include "config/keys.h"

namespace qrl::config {

/// The word of reward.verifier that has a program of the user judge.
inline constexpr std::string_view kCommandVerifier = "command";

/// Whether the verifier of that word judges some of a recipe's responses: by reward.verifier or reward.by_source.
bool judges(const Recipe& recipe, std::string_view word);

void add_reward(std::vector<Key>& list, const Choices& verifiers);

}  // namespace qrl::config
