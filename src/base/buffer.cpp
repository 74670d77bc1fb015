#include "base/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace qrl::base {

namespace {

constexpr std::size_t kArenaBlock_bytes = std::size_t{64} << 20;

std::size_t round_up(std::size_t count, std::size_t multiple) { return (count + multiple - 1) / multiple * multiple; }

}  // namespace

void advise_huge_pages(void* block, std::size_t num_bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  const std::uintptr_t skipped = (kHugePage_bytes - address % kHugePage_bytes) % kHugePage_bytes;
  if (num_bytes < skipped + kHugePage_bytes) return;
  const std::size_t whole_bytes = (num_bytes - skipped) / kHugePage_bytes * kHugePage_bytes;
  (void)madvise(static_cast<std::byte*>(block) + skipped, whole_bytes, MADV_HUGEPAGE);
}

std::shared_ptr<std::byte> map_zeros(std::size_t num_bytes) {
  // Maps one huge page more, to have room for the alignment.
  const std::size_t mapped_bytes = num_bytes + kHugePage_bytes;
  void* mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  const std::shared_ptr<void> holder(mapped, [mapped_bytes](void* block) { munmap(block, mapped_bytes); });
  const std::uintptr_t before = reinterpret_cast<std::uintptr_t>(mapped) % kHugePage_bytes;
  std::byte* aligned = static_cast<std::byte*>(mapped) + (kHugePage_bytes - before) % kHugePage_bytes;
  advise_huge_pages(aligned, num_bytes);
  return {holder, aligned};
}

std::shared_ptr<void> Arena::take(std::size_t num_bytes) {
  num_bytes = round_up(num_bytes, Buffer::kAlignment_bytes);
  if (block_ == nullptr || block_bytes_ - used_bytes_ < num_bytes) {
    const std::size_t size = round_up(std::max(num_bytes, kArenaBlock_bytes), kHugePage_bytes);
    block_ = map_zeros(size);
    block_bytes_ = size;
    used_bytes_ = 0;
  }
  std::byte* piece = block_.get() + used_bytes_;
  used_bytes_ += num_bytes;
  return {block_, piece};
}

void Buffer::Free::operator()(void* bytes) const {
  if (piece == nullptr) std::free(bytes);
}

Buffer::Buffer(DType dtype, const Shape& shape, Arena* arena) : view_{nullptr, dtype, shape, Device::cpu} {
  const std::size_t padded = (view_.num_bytes() / kAlignment_bytes + 1) * kAlignment_bytes;
  if (arena != nullptr) {
    std::shared_ptr<void> piece = arena->take(padded);
    void* bytes = piece.get();
    bytes_ = std::unique_ptr<void, Free>(bytes, Free{std::move(piece)});  // still zero: arenas hand out each piece once
  } else {
    bytes_.reset(std::aligned_alloc(kAlignment_bytes, padded));
    if (bytes_ == nullptr) throw std::bad_alloc();
    advise_huge_pages(bytes_.get(), padded);
    std::memset(bytes_.get(), 0, padded);
  }
  view_.data = bytes_.get();
}

}  // namespace qrl::base
