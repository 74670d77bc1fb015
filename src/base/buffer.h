// Owns aligned CPU memory with a dtype and a shape. Knows nothing of what is stored.
#pragma once

#include <memory>

#include "base/view.h"

namespace qrl::base {

/// Owning, movable, zero-initialised, 64-byte aligned CPU tensor; the bytes are padded to a multiple of 64, so a
/// kernel may read (never write) past the last element up to the next cache line.
class Buffer {
 public:
  static constexpr std::size_t kAlignment_bytes = 64;

  Buffer() = default;
  Buffer(DType dtype, const Shape& shape);

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
    void operator()(void* bytes) const;
  };
  std::unique_ptr<void, Free> bytes_;
  View view_;
};

}  // namespace qrl::base
