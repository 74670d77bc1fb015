// Owns aligned CPU memory with a dtype and a shape. Knows nothing of what is stored.
#pragma once

#include <cstddef>
#include <memory>

#include "base/view.h"

namespace qrl::base {

/// Memory that buffers take pieces of, in whole huge pages however small the pieces are: matrices that are read one
/// after another miss the TLB less. What no buffer writes to takes no memory but address space; blocks stay as long as
/// a buffer has a piece of them.
class Arena {
 public:
  /// Zeros that nobody has touched, 64-byte aligned; throws std::bad_alloc.
  std::shared_ptr<void> take(std::size_t num_bytes);

 private:
  std::shared_ptr<std::byte> block_;
  std::size_t used_bytes_ = 0, block_bytes_ = 0;
};

/// Owning, movable, zero-initialized, 64-byte aligned CPU tensor; the bytes are padded to a multiple of 64, so a
/// kernel may read (never write) past the last element up to the next cache line.
class Buffer {
 public:
  static constexpr std::size_t kAlignment_bytes = 64;

  Buffer() = default;
  /// In memory of its own, or in the arena's.
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
    std::shared_ptr<void> piece;  ///< of an arena; null: memory of its own
    void operator()(void* bytes) const;
  };
  std::unique_ptr<void, Free> bytes_;
  View view_;
};

}  // namespace qrl::base
