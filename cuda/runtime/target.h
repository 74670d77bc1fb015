// Owns the primitives that kernels are written in: those of CUDA. With QRL_CUDA_EMULATED,
// tests/cuda/emulation/emulation.h emulates them on the host.
#pragma once

#if defined(QRL_CUDA_EMULATED)
#include <emulation.h>
#else

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdlib>
#include <string_view>

#include "cuda/runtime/check.h"
#include "cuda/runtime/portable.h"
#include "cuda/runtime/runtime.h"
#include "cuda/runtime/shared_memory_limit.h"

#define QRL_KERNEL __global__
#define QRL_KERNEL_OF(threads, blocks) __global__ __launch_bounds__(threads, blocks)
#define QRL_DEVICE __device__ __forceinline__

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace wmma = nvcuda::wmma;
using MmaBf16 = __nv_bfloat16;
using MmaInt8 = signed char;

QRL_DEVICE int thread_idx() { return static_cast<int>(threadIdx.x); }
QRL_DEVICE int num_threads() { return static_cast<int>(blockDim.x); }
QRL_DEVICE std::int64_t block_x() { return blockIdx.x; }
QRL_DEVICE std::int64_t block_y() { return blockIdx.y; }
QRL_DEVICE std::int64_t num_blocks_x() { return gridDim.x; }
QRL_DEVICE void sync_block() { __syncthreads(); }
QRL_DEVICE void sync_warp() { __syncwarp(); }
/// All lanes must call it.
template <class T>
QRL_DEVICE T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffU, value, mask);
}
QRL_DEVICE std::uint32_t count_up(std::uint32_t* counter) { return atomicAdd(counter, 1U); }
/// Waits for the previous kernel; its results are then visible. All threads of every kernel must call it.
///
/// Code before the call may read only memory that the previous kernel does not write. After the call, the next kernel
/// may begin, which hides launch time on Hopper and newer.
QRL_DEVICE void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
QRL_DEVICE void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }
QRL_DEVICE void fence_device() { __threadfence(); }
/// Loads a word that another block wrote, bypassing L1.
QRL_DEVICE std::uint32_t load_shared_word(const std::uint32_t* from) { return __ldcg(from); }

// Copy asynchronously from device to shared memory. Both addresses must be aligned to the size. If not `valid`, write
// zeros and do not read `from`. The bytes at `to` are undefined before wait_copies.
QRL_DEVICE void copy_async_16(void* to, const void* from, bool valid) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(valid ? 16 : 0));
}
QRL_DEVICE void copy_async_8(void* to, const void* from, bool valid) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(address), "l"(from), "r"(valid ? 8 : 0));
}
QRL_DEVICE void copy_async_4(void* to, const void* from, bool valid) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(valid ? 4 : 0));
}
QRL_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for all but the last `pending` copy groups of this thread. Other threads see the copies after a barrier.
template <int pending>
QRL_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Computes c [16, 8] += a [16, K] · b [K, 8] with one warp: PTX's mma.sync m16n8k16 for bf16, m16n8k32 for int8.
// Products are exact. Sums are fp32 with the tensor core's internal precision, or int32.
//
// Fragments, with q = lane / 4 and t = lane % 4: a word holds inputs 2t and 2t + 1 (bf16) or 4t … 4t + 3 (int8). a[0]
// is row q and a[1] row q + 8, in the first half of K; a[2] and a[3] are the same rows in the second half. b0 and b1
// are column q in the first and second half of K. c is (q, 2t), (q, 2t + 1), (q + 8, 2t), (q + 8, 2t + 1).
QRL_DEVICE void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
QRL_DEVICE void mma(std::int32_t (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
QRL_DEVICE void mma_unsigned_b(std::int32_t (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
QRL_DEVICE void mma_f16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// Compute a · b + c for two packed bf16 or fp16 numbers each, rounded once to nearest even. Subnormals are kept.
QRL_DEVICE std::uint32_t fma_bf16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
QRL_DEVICE std::uint32_t fma_f16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
/// Returns four bytes of `low` (0 … 3) and `high` (4 … 7), chosen by the nibbles of `selector`.
QRL_DEVICE std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high, std::uint32_t selector) {
  return __byte_perm(low, high, selector);
}
/// Computes (value & mask) ^ flip in one instruction.
QRL_DEVICE std::uint32_t mask_flip(std::uint32_t value, std::uint32_t mask, std::uint32_t flip) {
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(result) : "r"(value), "r"(mask), "r"(flip));
  return result;
}
QRL_DEVICE std::int32_t add_int8_products(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
}
/// Packs two floats as bf16, rounded to nearest even; `low` is in the low half.
QRL_DEVICE std::uint32_t bf16x2_of(float low, float high) {
  std::uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

/// Convert two floats to packed fp16, rounded to nearest even (overflow gives infinity), and back. `low` is in the low
/// half.
QRL_DEVICE std::uint32_t f16x2_of(float low, float high) {
  std::uint32_t result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}
QRL_DEVICE void floats_of_f16x2(std::uint32_t pair, float& low, float& high) {
  asm("{.reg .b16 first, second; mov.b32 {first, second}, %2; cvt.f32.f16 %0, first; cvt.f32.f16 %1, second;}"
      : "=f"(low), "=f"(high)
      : "r"(pair));
}

/// Rounds four floats to e4m3, the first in the lowest byte. The bits equal fp8_of's, except for NaN's sign.
QRL_DEVICE std::uint32_t fp8x4_of(const float (&values)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint32_t result;
  asm("{.reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; "
      "mov.b32 %0, {low, high};}"
      : "=r"(result)
      : "f"(values[0]), "f"(values[1]), "f"(values[2]), "f"(values[3]));
  return result;
#else
  std::uint32_t result = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e) result |= static_cast<std::uint32_t>(fp8_of(values[e])) << (8 * e);
  return result;
#endif
}

/// Returns the block's dynamic shared memory: uninitialized, 32-byte aligned or better.
QRL_DEVICE unsigned char* shared_memory() {
  extern __shared__ __align__(128) unsigned char bytes[];
  return bytes;
}

/// Returns whether a kernel may begin before the previous kernel has ended. It may on Hopper and newer, unless
/// QRL_CUDA_OVERLAP=0 is set to locate errors. Assumes one device per process.
inline bool kernels_overlap() {
  static const bool from_hopper_on = [] {
    const char* wanted = std::getenv("QRL_CUDA_OVERLAP");
    if (wanted != nullptr && std::string_view(wanted) == "0") return false;
    int device = 0, major = 0;
    QRL_CUDA_CHECK(cudaGetDevice(&device));
    QRL_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    return major >= 9;
  }();
  return from_hopper_on;
}

struct Grid {
  std::int64_t x = 1, y = 1;
};

/// Launches a kernel; no-op for an empty grid. `threads` is a multiple of 32.
template <class Task>
void launch(void (*kernel)(Task), Grid grid, int threads, std::size_t shared_bytes, const Stream& stream, Task task) {
  static SharedMemoryLimits limits;
  if (grid.x == 0 || grid.y == 0) return;
  QRL_INVARIANT(grid.x <= 0x7fffffff && grid.y <= 65535, "kernel launch", "a grid within CUDA's limits",
                std::to_string(grid.x) + " x " + std::to_string(grid.y));
  const auto* function = reinterpret_cast<const void*>(kernel);
  limits.require(
      function, shared_bytes,
      [&] {
        // Splits L1 and shared memory the same way for all kernels: a kernel with another split would wait until
        // earlier kernels end.
        QRL_CUDA_CHECK(cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout,
                                            cudaSharedmemCarveoutMaxShared));
      },
      [&](std::size_t num_bytes) {
        QRL_CUDA_CHECK(
            cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(num_bytes)));
      });
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream.handle());
  config.attrs = &overlap;
  config.numAttrs = kernels_overlap() ? 1 : 0;
  void* arguments[] = {&task};
  cudaError_t result = cudaLaunchKernelExC(&config, function, arguments);
  if (result == cudaErrorInvalidValue && config.stream == nullptr && config.numAttrs == 1) {
    (void)cudaGetLastError();  // some drivers refuse overlap on the default stream
    config.numAttrs = 0;
    result = cudaLaunchKernelExC(&config, function, arguments);
  }
  QRL_CUDA_CHECK(result);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

#endif

namespace qrl::cuda::QRL_CUDA_TARGET {

QRL_DEVICE int lane_idx() { return thread_idx() % 32; }
QRL_DEVICE int warp_idx() { return thread_idx() / 32; }

// warp_sum returns the warp's sum to every lane, added in a fixed butterfly order. warp_max returns the largest value.
template <class T>
QRL_DEVICE T warp_sum(T value) {
  for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}
QRL_DEVICE float warp_max(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value = fmaxf(value, shuffle_xor(value, mask));
  return value;
}
QRL_DEVICE std::uint32_t warp_max(std::uint32_t value) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const std::uint32_t other = shuffle_xor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
