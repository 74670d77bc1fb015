// Declares the keys that fill the options of verifiers and environments.
#pragma once

#include "config/keys/sections.h"
#include "tasks/environment/environment.h"
#include "tasks/verifier.h"

namespace qrl::tasks {

inline constexpr const char* kCommandVerifier = "command";
inline constexpr const char* kEnvironmentVerifier = "environment";

/// Adds the scores that only verifiers by rules have.
void add_rule_keys(config::Section<RuleWeights> reward, const config::AnyChoices& verifiers);
/// Adds the keys of the verifier `command`.
void add_command_keys(config::Section<CommandOptions> reward, const config::Choices<VerifierChoice>& verifiers);
void add_environment_keys(config::Section<EnvironmentOptions> environment);

}  // namespace qrl::tasks
