#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/bf16.h"
#include "base/error.h"

namespace qrl::base {

enum class DType : std::uint8_t { f32, bf16, f16, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean };

std::size_t size_bytes(DType dtype);
std::string_view name(DType dtype);

enum class Device : std::uint8_t { cpu, cuda };

/// Holds at most eight dimensions of a row-major, contiguous array.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  /// Throws an internal error for more than kMaxRank dimensions, a negative dimension, or an overflowing product.
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  std::int64_t numel() const;
  std::span<const std::int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }
  std::string to_string() const;
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, bf16>) return DType::bf16;
  else if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, std::int8_t>) return DType::i8;
  else if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  else if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  else {
    static_assert(std::is_same_v<T, std::int64_t>, "no DType for this type");
    return DType::i64;
  }
}

/// Refers to memory that must outlive the view. A view with null `data` is empty.
struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Device device = Device::cpu;

  std::int64_t numel() const { return shape.numel(); }
  std::size_t num_bytes() const { return static_cast<std::size_t>(numel()) * size_bytes(dtype); }
  bool empty() const { return data == nullptr; }

  /// Returns `data`. Throws an internal error unless T is the dtype and the bytes are in CPU memory.
  template <class T>
  T* as() const {
    QRL_INVARIANT(dtype == dtype_of<T>() && device == Device::cpu, "view", std::string(name(dtype_of<T>())) + " on cpu",
                  std::string(name(dtype)) + (device == Device::cpu ? " on cpu" : " on cuda"));
    return static_cast<T*>(data);
  }
};

}  // namespace qrl::base
