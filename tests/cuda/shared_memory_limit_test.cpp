// Tests kernels' limits of dynamic shared memory: they never decrease, whatever the order of launches and threads.
#include "cuda/runtime/shared_memory_limit.h"

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/catch.h"

namespace {

using qrl::cuda::SharedMemoryLimits;

constexpr std::size_t kKiB = 1024;
constexpr auto kNothing = [] {};

}  // namespace

TEST_CASE("shared memory limit: raised when necessary, never lowered") {
  SharedMemoryLimits limits;
  const int kernels[2] = {};
  std::vector<std::size_t> raised;
  const auto need = [&](const int& kernel, std::size_t num_bytes) {
    limits.require(&kernel, num_bytes, kNothing, [&](std::size_t bytes) { raised.push_back(bytes); });
  };
  need(kernels[0], SharedMemoryLimits::kDefaultBytes);
  CHECK(raised.empty());
  for (const std::size_t size : {200 * kKiB, 100 * kKiB, 200 * kKiB, 201 * kKiB, 49 * kKiB}) need(kernels[0], size);
  CHECK((raised == std::vector<std::size_t>{200 * kKiB, 201 * kKiB}));
  need(kernels[1], 100 * kKiB);  // each kernel has its own limit
  CHECK(raised.back() == 100 * kKiB);
}

TEST_CASE("shared memory limit: a kernel is prepared once before its first limit, whatever its shared memory") {
  SharedMemoryLimits limits;
  const int kernels[2] = {};
  std::vector<const int*> prepared;
  const auto launch = [&](const int& kernel, std::size_t num_bytes) {
    limits.require(
        &kernel, num_bytes, [&] { prepared.push_back(&kernel); },
        [&](std::size_t) { CHECK(std::ranges::count(prepared, &kernel) == 1); });
  };
  for (const std::size_t size : {std::size_t{0}, 16 * kKiB, 100 * kKiB}) launch(kernels[0], size);
  launch(kernels[1], 100 * kKiB);
  CHECK((prepared == std::vector<const int*>{&kernels[0], &kernels[1]}));
  // After a failed preparation, the next launch prepares it.
  const int other = 0;
  const auto refuse = [] { throw std::runtime_error("refused"); };
  const auto raise = [](std::size_t) { FAIL("raised before it was prepared"); };
  CHECK_THROWS_AS(limits.require(&other, 100 * kKiB, refuse, raise), std::runtime_error);
  launch(other, 0);
  CHECK(prepared.back() == &other);
}

TEST_CASE("shared memory limit: one that could not be raised is raised by the next launch") {
  SharedMemoryLimits limits;
  const int kernel = 0;
  const auto refuse = [](std::size_t) { throw std::runtime_error("refused"); };
  CHECK_THROWS_AS(limits.require(&kernel, 100 * kKiB, kNothing, refuse), std::runtime_error);
  std::size_t raised = 0;
  limits.require(&kernel, 100 * kKiB, kNothing, [&](std::size_t bytes) { raised = bytes; });
  CHECK(raised == 100 * kKiB);
}

TEST_CASE("shared memory limit: concurrent launches of a kernel only raise it") {
  SharedMemoryLimits limits;
  const int kernel = 0;
  std::size_t in_force = 0;  // the limit last given to the driver; written under the limits' lock
  std::vector<std::size_t> raised;
  std::vector<std::thread> threads;
  for (std::size_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (std::size_t i = 0; i < 100; ++i) {
        const std::size_t size = (64 + (first * 37 + i * 61) % 128) * kKiB;
        limits.require(&kernel, size, kNothing, [&](std::size_t bytes) {
          in_force = bytes;
          raised.push_back(bytes);
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(in_force == (64 + 127) * kKiB);
  CHECK(std::ranges::is_sorted(raised, std::less_equal<>()));
}
