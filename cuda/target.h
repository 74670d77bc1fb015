// Owns the few words that the kernels are written in: who am I, wait, exchange, shared memory, matrix units, launch.
// With nvcc they are CUDA's; with QRL_CUDA_EMULATED they are those of tests/cuda/emulation/emulation.h, which runs the
// same kernels on the host. Included by kernel sources only.
#pragma once

#if defined(QRL_CUDA_EMULATED)
#include <emulation.h>
#else

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include "check.h"
#include "runtime.h"

#define QRL_KERNEL __global__
/// A kernel of so many threads a block, with registers for at least so many blocks a multiprocessor.
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
/// The value of the lane whose index differs in the bits of `mask`; all lanes of the warp call.
template <class T>
QRL_DEVICE T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffU, value, mask);
}
/// c += a·b on the warp's matrix unit, 16x8x16: bf16 pairs (first one low), exact products, fp32 sums. With g = lane /
/// 4 and t = lane % 4 a lane holds: of a (16 rows, 16 inputs) in words 0 … 3 inputs 2t, 2t + 1 of rows g and g + 8,
/// then inputs 2t + 8, 2t + 9 of the same; of b (16 inputs, 8 columns) inputs 2t, 2t + 1, then 2t + 8, 2t + 9 of column
/// g; of c row g's columns 2t, 2t + 1, then row g + 8's (PTX ISA, mma.m16n8k16). A row's result depends on no other
/// row, a column's on no other column. All lanes call.
QRL_DEVICE void multiply_add_16x8x16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/// Four of the eight bytes of low (0 … 3) and high (4 … 7): `selector` names them, four bits each, lowest first.
QRL_DEVICE std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high, std::uint32_t selector) {
  return __byte_perm(low, high, selector);
}
/// a·b + c of two bf16 at once, each rounded once to the nearest even; subnormals count.
QRL_DEVICE std::uint32_t fma_bf16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}
/// Two floats as bf16, nearest even, the first low.
QRL_DEVICE std::uint32_t bf16x2_of(float low, float high) {
  std::uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}
/// The block's shared memory, aligned for the matrix units (32 bytes); not initialised.
QRL_DEVICE unsigned char* shared_memory() {
  extern __shared__ __align__(128) unsigned char bytes[];
  return bytes;
}

/// Blocks in x and y.
struct Grid {
  std::int64_t x = 1, y = 1;
};

/// Nothing for an empty grid. `threads` a multiple of 32.
template <class Task>
void launch(void (*kernel)(Task), Grid grid, int threads, std::size_t shared_bytes, const Stream& stream, Task task) {
  constexpr std::size_t kWithoutAsking = 48 * 1024;
  if (grid.x == 0 || grid.y == 0) return;
  QRL_INVARIANT(grid.x <= 0x7fffffff && grid.y <= 65535, "kernel launch", "a grid within CUDA's limits",
                std::to_string(grid.x) + " x " + std::to_string(grid.y));
  if (shared_bytes > kWithoutAsking) {
    QRL_CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  }
  void* arguments[] = {&task};
  QRL_CUDA_CHECK(cudaLaunchKernel(
      reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y)),
      dim3(static_cast<unsigned>(threads)), arguments, shared_bytes, static_cast<cudaStream_t>(stream.handle())));
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

#endif

namespace qrl::cuda::QRL_CUDA_TARGET {

QRL_DEVICE int lane_idx() { return thread_idx() % 32; }
QRL_DEVICE int warp_idx() { return thread_idx() / 32; }

// Every lane gets the result; the order of sums is that of a butterfly, the same always.
QRL_DEVICE float warp_sum(float value) {
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
