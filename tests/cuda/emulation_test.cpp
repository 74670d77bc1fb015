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
