// Owns the keys of the verifier that judges responses and of the weights of its scores.
#pragma once

#include <vector>

#include "config/keys.h"

namespace qrl::config {

/// The word of reward.verifier that selects a user's program as judge.
inline constexpr std::string_view kCommandVerifier = "command";

/// Returns whether reward.verifier or reward.by_source selects the verifier of that word.
bool judges(const Recipe& recipe, std::string_view word);

void add_reward(std::vector<Key>& list, const Choices& verifiers);

}  // namespace qrl::config
