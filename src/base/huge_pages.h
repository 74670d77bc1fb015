// Owns large blocks of memory in huge pages.
#pragma once

#include <cstddef>
#include <memory>

namespace qrl::base {

inline constexpr std::size_t kHugePage_bytes = std::size_t{2} << 20;

/// Advises the kernel to back the 2 MiB-aligned inside of a large block with huge pages: about 500 times fewer page
/// faults, and fewer TLB misses. Call it before the memory is touched. It has no effect where the system has no huge
/// pages.
void advise_huge_pages(void* block, std::size_t num_bytes);

/// Maps zeroed memory, aligned to huge pages and backed by them if available. Pages take memory once touched; the last
/// holder unmaps them. Throws std::bad_alloc.
std::shared_ptr<std::byte> map_zeros(std::size_t num_bytes);

}  // namespace qrl::base
