#include "base/view.h"

namespace qrl::base {

namespace {

struct Kind {
  std::string_view name;
  std::size_t num_bytes;
};
/// Lists the types in the order of DType.
constexpr auto kKinds = std::to_array<Kind>({{"F32", 4},
                                             {"BF16", 2},
                                             {"F16", 2},
                                             {"F64", 8},
                                             {"I8", 1},
                                             {"U8", 1},
                                             {"I16", 2},
                                             {"U16", 2},
                                             {"I32", 4},
                                             {"U32", 4},
                                             {"I64", 8},
                                             {"U64", 8},
                                             {"BOOL", 1}});
static_assert(kKinds.size() == static_cast<std::size_t>(DType::boolean) + 1);

const Kind& kind_of(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  QRL_INVARIANT(index < kKinds.size(), "dtype", "a known dtype", std::to_string(index));
  return kKinds[index];
}

}  // namespace

std::size_t size_bytes(DType dtype) { return kind_of(dtype).num_bytes; }
std::string_view name(DType dtype) { return kind_of(dtype).name; }

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
