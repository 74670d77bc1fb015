#include "base/buffer.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/huge_pages.h"

namespace qrl::base {

void Buffer::Free::operator()(void* bytes) const { std::free(bytes); }

Buffer::Buffer(DType dtype, const Shape& shape) : view_{nullptr, dtype, shape, Device::cpu} {
  const std::size_t padded = (view_.num_bytes() / kAlignment_bytes + 1) * kAlignment_bytes;
  bytes_.reset(std::aligned_alloc(kAlignment_bytes, padded));
  if (bytes_ == nullptr) throw std::bad_alloc();
  advise_huge_pages(bytes_.get(), padded);
  std::memset(bytes_.get(), 0, padded);
  view_.data = bytes_.get();
}

}  // namespace qrl::base
