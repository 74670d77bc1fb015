// Owns which launches that no GPU has been measured with are tried: none, unless QRL_CUDA_TRY names them. Knows nothing
// of kernels. scripts/gpu/check proves and measures each beside what is used without it.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"

namespace qrl::cuda {

struct Trials {
  bool last_block_joins = false;  ///< the last block of a row joins its attention, without a second kernel
  bool row_scales = false;        ///< cuBLASLt multiplies e4m3 with a scale a row and an output where rows are many
  bool clusters = false;          ///< pairs of CUTLASS's blocks read the weights that both need once
};

struct TrialName {
  std::string_view name;
  bool Trials::*is_on;
};
inline constexpr TrialName kTrialNames[] = {
    {"join", &Trials::last_block_joins}, {"row_scales", &Trials::row_scales}, {"clusters", &Trials::clusters}};

/// Reads names with commas between them; null and "" name none. Any other name is an input error.
inline Trials trials_of(const char* names) {
  Trials trials;
  std::string_view left = names == nullptr ? "" : names;
  while (!left.empty()) {
    const std::string_view name = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), name.size() + 1));
    const auto* found = std::ranges::find(kTrialNames, name, &TrialName::name);
    std::string all;
    for (const TrialName& each : kTrialNames) all += (all.empty() ? "" : ", ") + std::string(each.name);
    QRL_REQUIRE(found != std::end(kTrialNames), "QRL_CUDA_TRY", "names with commas between them, of: " + all,
                std::string(name));
    trials.*(found->is_on) = true;
  }
  return trials;
}

/// Names those that are on, with commas between them.
inline std::string names_of(const Trials& trials) {
  std::string names;
  for (const TrialName& each : kTrialNames) {
    if (trials.*(each.is_on)) names += (names.empty() ? "" : ",") + std::string(each.name);
  }
  return names;
}

/// Returns those of the environment.
inline Trials trials_wanted() { return trials_of(std::getenv("QRL_CUDA_TRY")); }

}  // namespace qrl::cuda
