#include "base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace qrl::base {

void advise_huge_pages(void* block, std::size_t num_bytes) {
  constexpr std::uintptr_t kHugePage_bytes = std::uintptr_t{2} << 20;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  const std::uintptr_t begin = (address + kHugePage_bytes - 1) / kHugePage_bytes * kHugePage_bytes;
  const std::uintptr_t end = (address + num_bytes) / kHugePage_bytes * kHugePage_bytes;
  if (end > begin) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace qrl::base
