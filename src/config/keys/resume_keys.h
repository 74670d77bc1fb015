// Owns which keys may change on resume.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace qrl::config {

enum class OnResume : std::uint8_t {
  fixed,         ///< must not change
  allow_change,  ///< may change with --allow-change, with other results
  free,          ///< may change: no weight depends on it
};
OnResume on_resume(std::string_view key);

/// Returns the tables' names: full keys, and sections that end with a point.
std::vector<std::string_view> resume_key_names();

}  // namespace qrl::config
