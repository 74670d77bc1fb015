#pragma once

#include <cstddef>
#include <memory>

namespace qrl::base {

inline constexpr std::size_t kHugePage_bytes = std::size_t{2} << 20;

/// Advises huge pages for the 2 MiB-aligned inside of a block, for fewer page faults and TLB misses. Call it before
/// memory is touched.
void advise_huge_pages(void* block, std::size_t num_bytes);

/// Maps zeroed memory, aligned to huge pages; the last holder unmaps it. Throws std::bad_alloc.
std::shared_ptr<std::byte> map_zeros(std::size_t num_bytes);

}  // namespace qrl::base
