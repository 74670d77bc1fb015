// The emulation itself: what it is there to find, it finds. Nothing of this in the program for a GPU.
#if defined(QRL_CUDA_EMULATED)

#include "emulation.h"

#include <vector>

#include "base/error.h"
#include "device.h"

namespace {

using namespace qrl;
using namespace qrl::cuda::emulated;

struct Task {
  float* out;
  bool with_barrier;
};

/// Every thread reads what its neighbour wrote.
void pass_on(Task task) {
  auto* shared = reinterpret_cast<float*>(shared_memory());
  shared[thread_idx()] = static_cast<float>(thread_idx());
  if (task.with_barrier) sync_block();
  task.out[thread_idx()] = shared[(thread_idx() + 1) % num_threads()];
}

struct Matrices {
  const float *a, *b;  // [16, 16], [16, 8]
  float* c;            // [16, 8]
};

/// One product by the registers that target.h names.
void multiply(Matrices task) {
  const int g = thread_idx() / 4, t = thread_idx() % 4;
  const auto pair = [](const float* at, int stride) { return bf16x2_of(at[0], at[stride]); };
  const std::uint32_t a[4] = {pair(task.a + 16 * g + 2 * t, 1), pair(task.a + 16 * (g + 8) + 2 * t, 1),
                              pair(task.a + 16 * g + 2 * t + 8, 1), pair(task.a + 16 * (g + 8) + 2 * t + 8, 1)};
  const std::uint32_t b[2] = {pair(task.b + 8 * (2 * t) + g, 8), pair(task.b + 8 * (2 * t + 8) + g, 8)};
  float c[4] = {1, 1, 1, 1};
  multiply_add_16x8x16(c, a, b);
  for (int i = 0; i < 4; ++i) task.c[8 * (g + i / 2 * 8) + 2 * t + i % 2] = c[i];
}

/// Half of a warp waits for the block, half for the warp.
void part_ways(Task) {
  if (thread_idx() % 2 == 0) sync_block();
  else sync_warp();
}

std::vector<float> passed_on(Order order, bool with_barrier) {
  std::vector<float> out(64);
  set_thread_order(order);
  launch(pass_on, {}, 64, 64 * sizeof(float), Stream(), Task{out.data(), with_barrier});
  set_thread_order(Order::ascending);
  return out;
}

}  // namespace

TEST_CASE("emulation: a missing barrier shows as NaN or as a result that depends on the order") {
  const std::vector<float> up = passed_on(Order::ascending, false), down = passed_on(Order::descending, false);
  CHECK(std::isnan(up[0]));
  CHECK_FALSE(std::isnan(down[0]));
  CHECK(passed_on(Order::ascending, true) == passed_on(Order::descending, true));
  CHECK(passed_on(Order::ascending, true)[63] == 0);
}

TEST_CASE("emulation: a barrier that some threads do not reach is an error, and so is half a warp") {
  CHECK_THROWS_AS(launch(part_ways, {}, 32, 0, Stream(), Task{}), base::Error);
  CHECK_THROWS_AS(launch(part_ways, {}, 16, 0, Stream(), Task{}), base::Error);
}

TEST_CASE("emulation: the matrix unit's registers hold what they should, bytes and halves are picked and rounded") {
  std::vector<float> a(16 * 16), b(16 * 8), c(16 * 8), want(c.size(), 1.0F);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 31) - 15;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 23) - 11;
  launch(multiply, {}, 32, 0, Stream(), Matrices{a.data(), b.data(), c.data()});
  for (std::size_t m = 0; m < 16; ++m) {
    for (std::size_t n = 0; n < 8; ++n) {
      for (std::size_t k = 0; k < 16; ++k) want[8 * m + n] += a[16 * m + k] * b[8 * k + n];
    }
  }
  CHECK(c == want);
  CHECK(pick_bytes(0x03020100, 0x07060504, 0x7240) == 0x07020400);
  CHECK(bf16x2_of(1.0F, -2.00390625F) == 0xc0003f80);                   // a tie, to even
  CHECK(fma_bf16x2(0x3f804000, 0x40404040, 0x80003f80) == 0x404040e0);  // 1 · 3 − 0, 2 · 3 + 1
}

TEST_CASE("emulation: device memory has an end") {
  const std::size_t before = free_bytes();
  CHECK_THROWS_AS(Memory(before + 1), std::bad_alloc);
  {
    const Memory some(1000);
    CHECK(free_bytes() == before - 1000);
  }
  CHECK(free_bytes() == before);
}

#endif
