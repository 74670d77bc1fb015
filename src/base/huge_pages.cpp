#include "base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace qrl::base {

void advise_huge_pages(void* block, std::size_t num_bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  const std::uintptr_t skipped = (kHugePage_bytes - address % kHugePage_bytes) % kHugePage_bytes;
  if (num_bytes < skipped + kHugePage_bytes) return;
  const std::size_t whole_bytes = (num_bytes - skipped) / kHugePage_bytes * kHugePage_bytes;
  (void)madvise(static_cast<std::byte*>(block) + skipped, whole_bytes, MADV_HUGEPAGE);
}

}  // namespace qrl::base
