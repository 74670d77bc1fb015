#pragma once

#include <cstddef>
#include <memory>

#include "base/view.h"

namespace qrl::base {

inline constexpr std::size_t kHugePage_bytes = std::size_t{2} << 20;

/// Advises huge pages for the 2 MiB-aligned part of a block. Call it before the memory is touched.
void advise_huge_pages(void* block, std::size_t num_bytes);

/// Maps zeroed memory, aligned to huge pages. Throws std::bad_alloc.
std::shared_ptr<std::byte> map_zeros(std::size_t num_bytes);

/// Allocates buffers from blocks of whole huge pages. Unwritten pages take address space only. A block lives as long as
/// its last buffer.
class Arena {
 public:
  /// Returns zeroed, 64-byte aligned memory whose pages were never written. Throws std::bad_alloc.
  std::shared_ptr<void> take(std::size_t num_bytes);

 private:
  std::shared_ptr<std::byte> block_;
  std::size_t used_bytes_ = 0, block_bytes_ = 0;
};

/// Owns a zero-initialized, 64-byte aligned CPU tensor. Its memory extends to a multiple of 64 bytes, so that a kernel
/// may read (never write) up to the next cache line.
class Buffer {
 public:
  static constexpr std::size_t kAlignment_bytes = 64;

  Buffer() = default;
  /// Allocates from `arena` unless it is null.
  Buffer(DType dtype, const Shape& shape, Arena* arena = nullptr);

  View view() const { return view_; }
  const Shape& shape() const { return view_.shape; }
  std::size_t num_bytes() const { return view_.num_bytes(); }
  bool empty() const { return view_.empty(); }
  template <class T>
  T* as() const {
    return view_.as<T>();
  }

 private:
  struct Free {
    std::shared_ptr<void> piece;  ///< memory from an arena; null: the memory is from std::aligned_alloc
    void operator()(void* bytes) const;
  };
  std::unique_ptr<void, Free> bytes_;
  View view_;
};

}  // namespace qrl::base
