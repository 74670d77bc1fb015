// Owns an implementation of cuda/runtime/target.h on the host. The tests compile the same kernels with it, which checks
// arithmetic, indices, bounds and barriers without a GPU. A block's threads are fibers of one thread. Shared memory
// starts as NaN bytes. A barrier that not all threads reach ends the test. A stream queues its work until it is waited
// for, then runs it in order. Results read too early, and host memory changed too early, are thereby detected. Timing,
// memory order and the hardware's own actions are not emulated.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#include "callers_memory.h"
#include "cuda/runtime/portable.h"
#include "cuda/runtime/runtime.h"

#define QRL_KERNEL
#define QRL_KERNEL_OF(threads, blocks)
#define QRL_DEVICE inline

namespace qrl::cuda::emulated {

int thread_idx();
int num_threads();
std::int64_t block_x();
std::int64_t block_y();
std::int64_t num_blocks_x();
void sync_block();
void sync_warp();
unsigned char* shared_memory();
std::uint64_t exchange(std::uint64_t value, int mask);

template <class T>
T shuffle_xor(T value, int mask) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  word = exchange(word, mask);
  std::memcpy(&value, &word, sizeof value);
  return value;
}

/// Waits for the previous kernel. A kernel that ends without this call ends the test.
void wait_for_kernel_before();
inline void prefetch(const void*) {}
std::uint32_t count_up(std::uint32_t* counter);
inline void fence_device() {}
inline std::uint32_t load_shared_word(const std::uint32_t* from) { return *from; }

/// Writes NaN bytes immediately and the copied bytes at the wait, so that a missing wait or barrier before or after it
/// is detected. A copy without a wait before the kernel's end ends the test.
void copy_async(void* to, const void* from, std::size_t num_bytes, bool valid);
inline void copy_async_16(void* to, const void* from, bool valid) { copy_async(to, from, 16, valid); }
inline void copy_async_8(void* to, const void* from, bool valid) { copy_async(to, from, 8, valid); }
inline void copy_async_4(void* to, const void* from, bool valid) { copy_async(to, from, 4, valid); }
void commit_copies();
void wait_copies_but(std::size_t pending);
template <int pending>
void wait_copies() {
  wait_copies_but(pending);
}

void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);
void mma_f16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);
void mma(std::int32_t (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);
void mma_unsigned_b(std::int32_t (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);
std::uint32_t fma_bf16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c);
std::uint32_t fma_f16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c);
inline std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high, std::uint32_t selector) {
  const std::uint64_t both = static_cast<std::uint64_t>(high) << 32 | low;
  std::uint32_t picked = 0;
  for (int i = 0; i < 4; ++i)
    picked |= static_cast<std::uint32_t>((both >> ((selector >> (4 * i) & 7U) * 8)) & 0xffU) << (8 * i);
  return picked;
}
inline std::uint32_t mask_flip(std::uint32_t value, std::uint32_t mask, std::uint32_t flip) {
  return (value & mask) ^ flip;
}
inline std::int32_t add_int8_products(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  for (int shift = 0; shift < 32; shift += 8)
    sum += static_cast<std::int8_t>(a >> shift) * static_cast<std::int8_t>(b >> shift);
  return sum;
}
inline std::uint32_t bf16x2_of(float low, float high) {
  return static_cast<std::uint32_t>(bf16_of(high)) << 16 | bf16_of(low);
}
/// Rounds to fp16, to nearest even; infinite from 65,520 on. NaN stays NaN.
inline std::uint16_t f16_of(float value) {
  const std::uint32_t sign = (bits_of(value) >> 16) & 0x8000U;
  const std::uint32_t size = magnitude_of(value);
  if (size > kInfinityBits) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (size >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (size < 0x38800000U) {  // below 2⁻¹⁴: steps of 2⁻²⁴
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(rintf(float_of(size) * 0x1p24F)));
  }
  const std::uint32_t rounded = size + 0xfffU + ((size >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112U << 10)));
}
/// Converts exactly.
inline float float_of_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16, size = bits & 0x7fffU;
  if (size >= 0x7c00U) return float_of(sign | (size == 0x7c00U ? kInfinityBits : kNanBits));
  if (size < 0x400U) return float_of(sign | bits_of(static_cast<float>(size) * 0x1p-24F));
  return float_of(sign | ((size << 13) + (112U << 23)));
}
inline std::uint32_t f16x2_of(float low, float high) {
  return static_cast<std::uint32_t>(f16_of(high)) << 16 | f16_of(low);
}
inline void floats_of_f16x2(std::uint32_t pair, float& low, float& high) {
  low = float_of_f16(static_cast<std::uint16_t>(pair));
  high = float_of_f16(static_cast<std::uint16_t>(pair >> 16));
}
inline std::uint32_t fp8x4_of(const float (&values)[4]) {
  std::uint32_t word = 0;
  for (int e = 0; e < 4; ++e) word |= static_cast<std::uint32_t>(fp8_of(values[e])) << (8 * e);
  return word;
}

struct Grid {
  std::int64_t x = 1, y = 1;
};

/// Selects the order of a block's threads, and of blocks: a result that depends on it lacks a barrier.
enum class Order : std::uint8_t { ascending, descending };
void set_thread_order(Order order);

/// Returns how many graphs of this process were destroyed before their launches had ended.
std::int64_t graphs_ended_while_running();

void run_blocks(Grid grid, int threads, std::size_t shared_bytes, const std::function<void()>& kernel);
/// Reports a launch to the callback of on_launch (callers_memory.h).
void report_launch(const char* name);
/// Adds work that runs when the stream is waited for.
void add_work(const Stream& stream, std::function<void()> work);

template <class Task>
void launch(void (*kernel)(Task), Grid grid, int threads, std::size_t shared_bytes, const Stream& stream, Task task) {
  report_launch("own kernel");
  add_work(stream, [=] { run_blocks(grid, threads, shared_bytes, [&] { kernel(task); }); });
}

/// Multiplies floats as bf16, and small integers, like tensor cores: exact products, fp32 or int32 sums. The first lane
/// of a warp computes everything, so that reading a result without a barrier is detected.
struct MmaBf16 {
  std::uint16_t bits;
};
using MmaInt8 = signed char;

namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum Layout { mem_row_major };

template <class Use, int kM, int kN, int kK, class Element, class Order = void>
struct fragment {
  static_assert(kM == 16 && kN == 16 && kK == 16);
  using Value = std::conditional_t<std::is_same_v<Element, MmaBf16>, float,
                                   std::conditional_t<std::is_same_v<Element, MmaInt8>, std::int32_t, Element>>;
  Value at[16][16];
};

inline float value_of(MmaBf16 element) {
  const std::uint32_t bits = static_cast<std::uint32_t>(element.bits) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline std::int32_t value_of(MmaInt8 element) { return element; }

inline bool is_first_lane() { return thread_idx() % 32 == 0; }

template <class Element>
void fill_fragment(fragment<accumulator, 16, 16, 16, Element>& to, Element value) {
  if (!is_first_lane()) return;
  for (auto& row : to.at) {
    for (Element& one : row) one = value;
  }
}

template <class Element>
void load_matrix_sync(fragment<matrix_a, 16, 16, 16, Element, row_major>& to, const Element* from, unsigned stride) {
  if (!is_first_lane()) return;
  for (unsigned m = 0; m < 16; ++m) {
    for (unsigned k = 0; k < 16; ++k) to.at[m][k] = value_of(from[m * stride + k]);
  }
}
/// at[k][n]
template <class Element>
void load_matrix_sync(fragment<matrix_b, 16, 16, 16, Element, col_major>& to, const Element* from, unsigned stride) {
  if (!is_first_lane()) return;
  for (unsigned n = 0; n < 16; ++n) {
    for (unsigned k = 0; k < 16; ++k) to.at[k][n] = value_of(from[n * stride + k]);
  }
}

template <class Element, class Sum>
void mma_sync(fragment<accumulator, 16, 16, 16, Sum>& d, const fragment<matrix_a, 16, 16, 16, Element, row_major>& a,
              const fragment<matrix_b, 16, 16, 16, Element, col_major>& b,
              const fragment<accumulator, 16, 16, 16, Sum>& c) {
  if (!is_first_lane()) return;
  for (int m = 0; m < 16; ++m) {
    Sum sums[16];
    for (int n = 0; n < 16; ++n) sums[n] = c.at[m][n];
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < 16; ++n) sums[n] += a.at[m][k] * b.at[k][n];
    }
    for (int n = 0; n < 16; ++n) d.at[m][n] = sums[n];
  }
}

template <class Sum>
void store_matrix_sync(Sum* to, const fragment<accumulator, 16, 16, 16, Sum>& from, unsigned stride, Layout) {
  if (!is_first_lane()) return;
  for (unsigned m = 0; m < 16; ++m) {
    for (unsigned n = 0; n < 16; ++n) to[m * stride + n] = from.at[m][n];
  }
}

}  // namespace wmma

}  // namespace qrl::cuda::emulated
