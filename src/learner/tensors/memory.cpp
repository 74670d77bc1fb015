#include "learner/tensors/memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "base/buffer.h"

namespace qrl::learner {

namespace {

/// Blocks below this size are left to malloc, which reuses memory itself.
constexpr std::size_t kMinBlock_bytes = std::size_t{128} << 10;

/// Rounds up to one of 8 sizes per power of two, so that similar micro-batches reuse blocks.
std::size_t rounded_bytes(std::size_t num_bytes) {
  const std::size_t step = std::bit_floor(num_bytes) / 8;
  return (num_bytes + step - 1) / step * step;
}

class KeptBlocks {
 public:
  void* take(std::size_t num_bytes) {
    const std::size_t size = rounded_bytes(num_bytes);
    const std::lock_guard lock(mutex_);
    void* block = nullptr;
    if (const auto found = free_.find(size); found != free_.end()) {
      block = found->second;
      free_.erase(found);
      kept_bytes_ -= size;
    } else {
      // Frees unused blocks, largest first, so that used and unused blocks together stay within the peak of used ones.
      while (!free_.empty() && used_bytes_ + size + kept_bytes_ > std::max(most_used_bytes_, used_bytes_ + size)) {
        drop(std::prev(free_.end()));
      }
      block = c10::alloc_cpu(size);
      base::advise_huge_pages(block, size);
    }
    used_bytes_ += size;
    most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
    sizes_[block] = size;
    return block;
  }

  /// Returns false for a block of another allocator.
  bool give(void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(block);
    if (found == sizes_.end()) return false;
    free_.emplace(found->second, block);
    kept_bytes_ += found->second;
    used_bytes_ -= found->second;
    sizes_.erase(found);
    return true;
  }

  void release() {
    const std::lock_guard lock(mutex_);
    while (!free_.empty()) drop(free_.begin());
    most_used_bytes_ = used_bytes_;
  }

  std::size_t kept_bytes() {
    const std::lock_guard lock(mutex_);
    return kept_bytes_;
  }

 private:
  void drop(std::multimap<std::size_t, void*>::iterator block) {
    kept_bytes_ -= block->first;
    c10::free_cpu(block->second);
    free_.erase(block);
  }

  std::mutex mutex_;
  std::multimap<std::size_t, void*> free_;
  std::unordered_map<void*, std::size_t> sizes_;
  std::size_t used_bytes_ = 0, kept_bytes_ = 0, most_used_bytes_ = 0;
};

/// Never destroyed, because static tensors may be freed later.
KeptBlocks& blocks() {
  static KeptBlocks& kept = *new KeptBlocks;
  return kept;
}

void free_block(void* block) {
  if (block != nullptr && !blocks().give(block)) c10::free_cpu(block);
}

class KeepingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t num_bytes) override {
    void* block = num_bytes < kMinBlock_bytes ? c10::alloc_cpu(num_bytes) : blocks().take(num_bytes);
    return {block, block, &free_block, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t num_bytes) const override { std::memcpy(to, from, num_bytes); }
};

}  // namespace

void keep_tensor_memory() {
  static KeepingAllocator& allocator = *new KeepingAllocator;
  constexpr std::uint8_t kPriority = 1;  // LibTorch's own allocator has 0
  static const bool installed = (c10::SetCPUAllocator(&allocator, kPriority), true);
  (void)installed;
}

void release_tensor_memory() { blocks().release(); }

std::size_t kept_tensor_memory_bytes() { return blocks().kept_bytes(); }

}  // namespace qrl::learner
