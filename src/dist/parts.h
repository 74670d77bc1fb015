// Owns the checks of the parts of an array that all implementations of Collectives share.
#pragma once

#include <cstddef>
#include <span>

#include "dist/collectives.h"

namespace qrl::dist {

/// Throws an internal error unless every part lies in `size` elements and its owner in num_ranks.
void check_parts(const char* where, std::span<const Part> parts, std::size_t size, int num_ranks);

}  // namespace qrl::dist
