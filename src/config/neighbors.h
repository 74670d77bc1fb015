// Owns the answer about a key that does not exist: the nearest key of ours, and what veRL, TRL and OpenRLHF call by
// that name. Advice only: no name is ever accepted for another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/choice.h"
#include "config/keys.h"

namespace qrl::config {

/// In the order of the reference page; those of choices stand behind the table.
std::vector<Neighbor> neighbors(const Catalog& catalog);

/// One sentence for an unknown dotted key: "did you mean optim.lr?", "TRL's … is rollout.n here", …; "" when nothing
/// is near.
std::string advice_for_unknown_key(const Keys& keys, std::string_view name);

}  // namespace qrl::config
