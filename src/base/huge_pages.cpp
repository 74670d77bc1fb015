#include "base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace qrl::base {

void advise_huge_pages(void* block, std::size_t num_bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  const std::uintptr_t skipped = (kHugePage_bytes - address % kHugePage_bytes) % kHugePage_bytes;
  if (num_bytes < skipped + kHugePage_bytes) return;
  const std::size_t whole_bytes = (num_bytes - skipped) / kHugePage_bytes * kHugePage_bytes;
  (void)madvise(static_cast<std::byte*>(block) + skipped, whole_bytes, MADV_HUGEPAGE);
}

std::shared_ptr<std::byte> map_zeros(std::size_t num_bytes) {
  // The additional huge page, of address space only, allows alignment.
  const std::size_t mapped_bytes = num_bytes + kHugePage_bytes;
  void* mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  const std::shared_ptr<void> holder(mapped, [mapped_bytes](void* block) { munmap(block, mapped_bytes); });
  const std::uintptr_t before = reinterpret_cast<std::uintptr_t>(mapped) % kHugePage_bytes;
  std::byte* aligned = static_cast<std::byte*>(mapped) + (kHugePage_bytes - before) % kHugePage_bytes;
  advise_huge_pages(aligned, num_bytes);
  return {holder, aligned};
}

}  // namespace qrl::base
