// Owns which launches are tried that no GPU measurement covers yet: none, unless QRL_CUDA_TRY names them. Knows nothing
// of kernels. scripts/gpu/check proves and measures each next to the default.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"

namespace qrl::cuda {

struct Trials {
  bool clusters = false;  ///< pairs of CUTLASS's blocks read the weights that both need once
};

inline constexpr std::string_view kTrialNames[] = {"clusters"};
/// Returns the trial of that name, or null. nvcc's host code warns of a table of pointers to members.
inline bool* find_trial(Trials& trials, std::string_view name) {
  return name == "clusters" ? &trials.clusters : nullptr;
}

/// Parses comma-separated names; null and "" name none. Throws an input error for any other name.
inline Trials trials_of(const char* names) {
  Trials trials;
  std::string_view left = names == nullptr ? "" : names;
  while (!left.empty()) {
    const std::string_view name = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), name.size() + 1));
    bool* found = find_trial(trials, name);
    std::string all;
    for (const std::string_view each : kTrialNames) all += (all.empty() ? "" : ", ") + std::string(each);
    QRL_REQUIRE(found != nullptr, "QRL_CUDA_TRY", "names with commas between them, of: " + all, std::string(name));
    *found = true;
  }
  return trials;
}

/// Returns the comma-separated names of the enabled trials.
inline std::string names_of(Trials trials) {
  std::string names;
  for (const std::string_view each : kTrialNames) {
    if (*find_trial(trials, each)) names += (names.empty() ? "" : ",") + std::string(each);
  }
  return names;
}

inline Trials trials_wanted() { return trials_of(std::getenv("QRL_CUDA_TRY")); }

}  // namespace qrl::cuda
