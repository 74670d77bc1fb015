#pragma once

#include <cstddef>
#include <span>

#include "dist/collectives.h"

namespace qrl::dist {

/// Throws an internal error unless every part is within `size` elements and its owner below num_ranks.
void check_parts(const char* where, std::span<const Part> parts, std::size_t size, int num_ranks);

}  // namespace qrl::dist
