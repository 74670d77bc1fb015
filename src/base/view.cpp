#include "base/view.h"

#include <limits>

namespace qrl::base {

std::size_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return 1;
    case DType::bf16:
    case DType::f16:
    case DType::i16:
    case DType::u16:
      return 2;
    case DType::f32:
    case DType::i32:
    case DType::u32:
      return 4;
    case DType::f64:
    case DType::i64:
    case DType::u64:
      return 8;
  }
  fail_internal("dtype", "a known dtype", std::to_string(static_cast<int>(dtype)));
}

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    case DType::f64:
      return "F64";
    case DType::i8:
      return "I8";
    case DType::u8:
      return "U8";
    case DType::i16:
      return "I16";
    case DType::u16:
      return "U16";
    case DType::i32:
      return "I32";
    case DType::u32:
      return "U32";
    case DType::i64:
      return "I64";
    case DType::u64:
      return "U64";
    case DType::boolean:
      return "BOOL";
  }
  fail_internal("dtype", "a known dtype", std::to_string(static_cast<int>(dtype)));
}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  QRL_INVARIANT(dims.size() <= kMaxRank, "shape", "at most 8 dimensions", std::to_string(dims.size()));
  std::int64_t product = 1;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    QRL_INVARIANT(dims[axis] >= 0, "shape", "dimensions of 0 or more", std::to_string(dims[axis]));
    QRL_INVARIANT(!__builtin_mul_overflow(product, dims[axis], &product), "shape", "a product within 63 bits",
                  "an overflow");
    dims_[axis] = dims[axis];
  }
}

std::int64_t Shape::numel() const {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims()) product *= dim;
  return product;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) text += (axis == 0 ? "" : ", ") + std::to_string((*this)[axis]);
  return text + "]";
}

}  // namespace qrl::base
