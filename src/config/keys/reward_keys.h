// Owns the keys of the judging verifier and its scores' weights.
#pragma once

#include <vector>

#include "config/keys/key.h"

namespace qrl::config {

/// Selects a user's program in reward.verifier.
inline constexpr std::string_view kCommandVerifier = "command";

/// Returns whether reward.verifier or reward.by_source selects this verifier.
bool judges(const Recipe& recipe, std::string_view word);

void add_reward(std::vector<Key>& list, const Choices& verifiers);

}  // namespace qrl::config
