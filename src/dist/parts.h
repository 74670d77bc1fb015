// Owns what every way to meet asks of the parts of an array. Knows no transport.
#pragma once

#include <cstddef>
#include <span>

#include "dist/collectives.h"

namespace qrl::dist {

/// An internal error unless every part lies in an array of `size` elements and has one of num_ranks owners.
void check_parts(const char* where, std::span<const Part> parts, std::size_t size, int num_ranks);

}  // namespace qrl::dist
