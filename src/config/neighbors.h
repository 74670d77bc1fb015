// Owns what is said about a key that does not exist: the nearest key of ours, and what veRL, TRL and OpenRLHF call by
// that name. Advice only: no name is ever accepted for another.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace qrl::config {

struct Neighbor {
  std::string_view name;  ///< as others write it, without dashes; also a whole dotted name, or
                          ///< a section.* for all of its keys
  std::string_view ours;  ///< our key or keys, as text; "" when there is none
  std::string_view note;  ///< units that differ, or what is done instead; may be empty
};

/// The table, in the order of the reference page.
std::span<const Neighbor> neighbors();

/// One sentence for an unknown dotted key: "did you mean optim.lr?", "TRL's … is rollout.n here", …; "" when nothing
/// is near.
std::string advice_for_unknown_key(std::string_view name);

}  // namespace qrl::config
