// Owns which keys may change when a run is resumed. Knows no value of a key.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace qrl::config {

/// What a resumed run may do with a key's value.
enum class OnResume : std::uint8_t {
  fixed,         ///< it stays as it was
  allow_change,  ///< it may change with --allow-change: the run goes on, as another run
  free,          ///< it may change: no weight depends on it
};
OnResume on_resume(std::string_view key);

/// What the tables name: whole keys, and sections that end with a point.
std::vector<std::string_view> resume_key_names();

}  // namespace qrl::config
