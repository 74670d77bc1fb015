// Owns the advice about a key that does not exist: the nearest key, or the key for a name of veRL, TRL and OpenRLHF.
// Advice only: no name is accepted in place of another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/choice.h"
#include "config/keys.h"

namespace qrl::config {

/// Returns the rows in the order of the reference page: the table, then those of choices.
std::vector<Neighbor> neighbors(const Catalog& catalog);

/// Returns one sentence about an unknown dotted key: "did you mean optim.lr?", "TRL's … is rollout.n here", …; "" if no
/// key is near.
std::string advice_for_unknown_key(const Keys& keys, std::string_view name);

}  // namespace qrl::config
