// Tests the emulation itself: it detects the errors that it exists to detect. Empty in the program for a GPU.
#if defined(QRL_CUDA_EMULATED)

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "cuda/runtime/target.h"
#include "device.h"

namespace {

using namespace qrl;
using namespace qrl::cuda::emulated;

/// Launches one block and waits for it.
template <class Task>
void run(void (*kernel)(Task), int threads, std::size_t shared_bytes, Task task) {
  const Stream stream;
  launch(kernel, {}, threads, shared_bytes, stream, task);
  stream.wait();
}

struct Task {
  float* out;
  bool with_barrier;
};

/// Every thread reads what its neighbor wrote.
void pass_on(Task task) {
  wait_for_kernel_before();
  auto* shared = reinterpret_cast<float*>(shared_memory());
  shared[thread_idx()] = static_cast<float>(thread_idx());
  if (task.with_barrier) sync_block();
  task.out[thread_idx()] = shared[(thread_idx() + 1) % num_threads()];
}

/// Half of a warp waits for the block, half for the warp.
void part_ways(Task) {
  wait_for_kernel_before();
  if (thread_idx() % 2 == 0) sync_block();
  else sync_warp();
}

/// Half of the threads do not wait for the previous kernel.
void run_ahead(Task) {
  if (thread_idx() % 2 == 0) wait_for_kernel_before();
}

enum class Wait : std::uint8_t { before, after, never };
struct CopyTask {
  const float* from;
  float* out;
  Wait wait;
};
/// Every thread copies a number and reads it; the last one copies nothing.
void copy_one(CopyTask task) {
  wait_for_kernel_before();
  auto* shared = reinterpret_cast<float*>(shared_memory());
  const int i = thread_idx();
  copy_async_4(shared + i, task.from + i, i + 1 < num_threads());
  commit_copies();
  if (task.wait == Wait::before) wait_copies<0>();
  task.out[i] = shared[i];
  if (task.wait == Wait::after) wait_copies<0>();
}
std::vector<float> copied(Wait wait) {
  std::vector<float> from(32, 3.0F), out(32);
  run(copy_one, 32, 32 * sizeof(float), CopyTask{from.data(), out.data(), wait});
  return out;
}

/// Computes c = a · b in one warp, with b the first eight columns of the identity: column n of c is column n of a.
struct MmaTask {
  float* c;
};
template <bool f16>
void take_columns(MmaTask task) {
  wait_for_kernel_before();
  const int q = lane_idx() / 4, t = lane_idx() % 4;
  const auto pair = [](int row, int k) {  // row + 16 k, in two numbers
    const auto first = static_cast<float>(row + 16 * k), second = static_cast<float>(row + 16 * (k + 1));
    return f16 ? f16x2_of(first, second) : bf16x2_of(first, second);
  };
  const std::uint32_t a[4] = {pair(q, 2 * t), pair(q + 8, 2 * t), pair(q, 2 * t + 8), pair(q + 8, 2 * t + 8)};
  const std::uint32_t one = q / 2 != t ? 0 : (f16 ? 0x3c00U : 0x3f80U) << (16 * (q % 2));
  float c[4] = {0.5F, 0.5F, 0.5F, 0.5F};
  if constexpr (f16) mma_f16(c, a, one, 0);
  else mma(c, a, one, 0);
  for (int e = 0; e < 4; ++e) task.c[(q + e / 2 * 8) * 8 + 2 * t + e % 2] = c[e];
}

/// Computes sums of 32 products of a and b: int8 and int8, int8 and uint8.
struct ByteTask {
  std::int32_t* c;
};
void multiply_bytes(ByteTask task) {
  wait_for_kernel_before();
  constexpr std::uint32_t kMinus3 = 0xfdfdfdfdU, k200 = 0xc8c8c8c8U;
  std::int32_t both_signed[4] = {1, 1, 1, 1}, unsigned_b[4] = {1, 1, 1, 1};
  mma(both_signed, {kMinus3, kMinus3, kMinus3, kMinus3}, k200, k200);
  mma_unsigned_b(unsigned_b, {kMinus3, kMinus3, kMinus3, kMinus3}, k200, k200);
  if (thread_idx() != 0) return;
  task.c[0] = both_signed[3];
  task.c[1] = unsigned_b[3];
}

std::vector<float> passed_on(Order order, bool with_barrier) {
  std::vector<float> out(64);
  set_thread_order(order);
  run(pass_on, 64, 64 * sizeof(float), Task{out.data(), with_barrier});
  set_thread_order(Order::ascending);
  return out;
}

}  // namespace

TEST_CASE("emulation: a missing barrier shows as NaN or as an order-dependent result") {
  const std::vector<float> up = passed_on(Order::ascending, false), down = passed_on(Order::descending, false);
  CHECK(std::isnan(up[0]));
  CHECK_FALSE(std::isnan(down[0]));
  CHECK(passed_on(Order::ascending, true) == passed_on(Order::descending, true));
  CHECK(passed_on(Order::ascending, true)[63] == 0);
}

TEST_CASE("emulation: a barrier that some threads do not reach is an error, also within a warp") {
  CHECK_THROWS_AS(run(part_ways, 32, 0, Task{}), base::Error);
  CHECK_THROWS_AS(run(part_ways, 16, 0, Task{}), base::Error);
}

TEST_CASE("emulation: missing the wait for the previous kernel is an error") {
  CHECK_THROWS_AS(run(run_ahead, 32, 0, Task{}), base::Error);
}

TEST_CASE("emulation: reading an unfinished copy gives NaN, and leaving it unfinished at kernel end is an error") {
  CHECK(std::isnan(copied(Wait::after)[0]));
  CHECK(copied(Wait::before)[0] == 3);
  CHECK(copied(Wait::before)[31] == 0);  // not valid
  CHECK_THROWS_AS(copied(Wait::never), base::Error);
}

TEST_CASE("emulation: a warp's matrix instruction has the fragments of PTX") {
  for (const auto kernel : {take_columns<false>, take_columns<true>}) {
    std::vector<float> c(std::size_t{16} * 8);
    run(kernel, 32, 0, MmaTask{c.data()});
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column)
        CHECK(c[static_cast<std::size_t>(row * 8 + column)] == static_cast<float>(row + 16 * column) + 0.5F);
    }
  }
}

TEST_CASE("emulation: a warp's byte matrix instruction distinguishes signed and unsigned operands") {
  std::int32_t c[2] = {};
  run(multiply_bytes, 32, 0, ByteTask{c});
  CHECK(c[0] == 1 + 32 * -3 * -56);
  CHECK(c[1] == 1 + 32 * -3 * 200);
}

TEST_CASE("emulation: byte permutations and half-precision conversions equal PTX") {
  CHECK(pick_bytes(0x03020100, 0x07060504, 0x7240) == 0x07020400);
  CHECK(bf16x2_of(1.0F, -2.00390625F) == 0xc0003f80);                   // a tie, to even
  CHECK(fma_bf16x2(0x3f804000, 0x40404040, 0x80003f80) == 0x404040e0);  // 1 · 3 − 0, 2 · 3 + 1
  CHECK(f16x2_of(1.0F, -2.0009765625F) == 0xc0003c00);                  // a tie, to even
  CHECK(fma_f16x2(0x3c004000, 0x42004200, 0x80003c00) == 0x42004700);   // the same in fp16
}

TEST_CASE("emulation: a stream runs its work when waited for, and reads host memory no earlier") {
  const Memory there(sizeof(int));
  int sent = 1, seen = 0;
  const Stream stream;
  copy_to_device(there.data(), &sent, sizeof sent, stream);
  copy_to_host(&seen, there.data(), sizeof seen, stream);
  sent = 2;
  CHECK(seen == 0);
  stream.wait();
  CHECK(seen == 2);
}

TEST_CASE("emulation: waits, allocations and unpinned copies during graph capture are errors") {
  const Memory there(sizeof(int));
  const int other = 1;
  const Stream stream;
  CHECK_THROWS_AS(Graph(stream, [&] { stream.wait(); }), base::Error);
  CHECK_THROWS_AS(Graph(stream, [] { const Memory more(8); }), base::Error);
  CHECK_THROWS_AS(Graph(stream, [&] { copy_to_device(there.data(), &other, sizeof other, stream); }), base::Error);
}

TEST_CASE("emulation: copies check host and device pointers and bounds") {
  const Stream stream;
  const Memory there(64), other(64), pinned_host(64, Memory::Place::host);
  std::array<std::byte, 64> host{};
  const auto inside = there.as<std::byte>() + 16;
  copy_to_device(inside, host.data(), 48, stream);
  copy_to_host(pinned_host.data(), inside, 48, stream);
  copy_on_device(other.data(), inside, 48, stream);
  fill_zero(inside, 48, stream);
  CHECK_THROWS_AS(copy_to_device(host.data(), host.data(), 8, stream), base::Error);
  CHECK_THROWS_AS(copy_to_device(pinned_host.data(), host.data(), 8, stream), base::Error);
  CHECK_THROWS_AS(copy_to_device(there.data(), other.data(), 8, stream), base::Error);
  CHECK_THROWS_AS(copy_to_host(there.data(), other.data(), 8, stream), base::Error);
  CHECK_THROWS_AS(copy_to_host(host.data(), pinned_host.data(), 8, stream), base::Error);
  CHECK_THROWS_AS(copy_on_device(there.data(), host.data(), 8, stream), base::Error);
  CHECK_THROWS_AS(copy_on_device(host.data(), there.data(), 8, stream), base::Error);
  CHECK_THROWS_AS(fill_zero(host.data(), 8, stream), base::Error);
  CHECK_THROWS_AS(copy_to_device(inside, host.data(), 49, stream), base::Error);
  CHECK_THROWS_AS(copy_to_host(pinned_host.data(), there.data(), 65, stream), base::Error);
  CHECK_THROWS_AS(fill_zero(inside, 49, stream), base::Error);
  CHECK(name_of_memory(inside) == "memory of device 0");
  CHECK(name_of_memory(there.as<std::byte>() + 64) == "host memory");
  CHECK(name_of_memory(pinned_host.data()) == "host memory");
  // With the setting, foreign memory counts as host and device memory; Memory's own never does.
  accept_callers_memory(true);
  CHECK_NOTHROW(copy_on_device(there.data(), host.data(), 8, stream));
  CHECK(name_of_memory(host.data()) == "memory of device 0");
  CHECK_THROWS_AS(copy_on_device(there.data(), pinned_host.data(), 8, stream), base::Error);
  accept_callers_memory(false);
}

TEST_CASE("emulation: new memory is NaN with QRL_CUDA_POISON, unless requested as zero") {
  const char* asked = std::getenv("QRL_CUDA_POISON");
  const unsigned char byte = asked != nullptr && std::string(asked) == "1" ? 0xff : 0;
  const Memory there(3), host(3, Memory::Place::host), zeros = Memory::zeroed(3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(there.as<unsigned char>()[i] == byte);
    CHECK(host.as<unsigned char>()[i] == byte);
    CHECK(zeros.as<unsigned char>()[i] == 0);
  }
}

TEST_CASE("emulation: device memory is limited") {
  const std::size_t before = free_bytes();
  CHECK_THROWS_AS(Memory(before + 1), qrl::cuda::OutOfMemory);
  {
    const Memory some(1000);
    CHECK(free_bytes() == before - 1000);
  }
  {
    const Memory large(std::size_t{3} << 20);
    CHECK(free_bytes() == before - (std::size_t{4} << 20));
  }
  CHECK(free_bytes() == before);
}

TEST_CASE("emulation: fp16 decodes every bit pattern, and encodes values between two, at and beside ties") {
  const auto said = [](int code) {  // the value of a code in 0 … 0x7bff
    const int exponent = code >> 10, fraction = code & 0x3ff;
    return exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  };
  for (const int sign : {1, -1}) {
    const int sign_bit = sign < 0 ? 0x8000 : 0;
    for (int code = 0; code < 0x7c00; ++code) {
      const double value = said(code), next = code == 0x7bff ? 65536 : said(code + 1), tie = (value + next) / 2;
      const auto got = [&](double of) { return f16_of(static_cast<float>(sign * of)) - sign_bit; };
      const bool to_even = got(tie) == code + code % 2;
      const double beside = (next - value) / 1024;  // fp32 represents it
      if (float_of_f16(static_cast<std::uint16_t>(code + sign_bit)) != static_cast<float>(sign * value) ||
          got(value) != code || got(tie - beside) != code || got(tie + beside) != code + 1 || !to_even)
        FAIL("fp16 code " << code << ", sign " << sign);
    }
    CHECK(f16_of(static_cast<float>(sign * 1e30)) == 0x7c00 + sign_bit);
    CHECK(float_of_f16(static_cast<std::uint16_t>(0x7c00 + sign_bit)) ==
          static_cast<float>(sign) * std::numeric_limits<float>::infinity());
  }
  CHECK(std::isnan(float_of_f16(f16_of(std::nanf("")))));
  CHECK(std::isnan(float_of_f16(0x7c01)));
}

#endif
