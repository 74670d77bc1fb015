// Owns advice about unknown keys: the nearest key, or our key for a name of veRL, TRL or OpenRLHF.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/embedded_file.h"
#include "config/keys/key.h"

namespace qrl::config {

std::span<const base::EmbeddedFile> table_files();  // written by src/embed.cmake

/// Returns all aliases in the reference page's order: first other_trainers.yaml, then Option::aliases.
std::vector<Alias> aliases(const Catalog& catalog);

/// Returns advice about an unknown key: "did you mean optim.lr?", "here it is rollout.n", … Returns "" for a long name.
std::string advice_for_unknown_key(const Keys& keys, std::string_view name);

}  // namespace qrl::config
