// Tests how tensors travel between ranks: NCCL's calls, answered by a stand-in (stand_in/nccl.cpp), against host
// memory's.
#include <dlfcn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "learner/ranks.h"
#include "learner/stand_in/nccl_faults.h"
#include "learner/tensors/cuda_library.h"
#include "learner/tensors/rank_tensors.h"
#include "learner/torch_learner.h"
#include "support/catch.h"
#include "support/files.h"

namespace qrl {

using dist::Part;
using learner::RankTensors;

namespace {

/// Odd sizes, out of order; some elements belong to no part.
const std::vector<Part> kParts = {{11, 5, 2}, {0, 7, 0}, {20, 1, 1}, {21, 12, 0}, {17, 2, 1}};
constexpr std::int64_t kCount = 40;

struct Seen {
  torch::Tensor sum, shares, gathered, later, sent;
};

/// Returns what each rank holds after every kind of exchange.
template <class Make>
std::vector<Seen> exchange(int num_ranks, const Make& make) {
  std::vector<Seen> seen(static_cast<std::size_t>(num_ranks));
  test::Ranks(num_ranks).run([&](dist::Collectives& world) {
    const std::unique_ptr<RankTensors> ranks = make(world);
    CHECK(ranks->rank() == world.rank());
    CHECK(ranks->size() == num_ranks);
    const auto values = [&](double scale) {
      return torch::arange(kCount, torch::kFloat32).mul(scale).add(0.1 * (world.rank() + 1)).contiguous();
    };
    Seen& mine = seen[static_cast<std::size_t>(world.rank())];
    mine.sum = values(0.3);
    ranks->begin_sum(mine.sum, {});
    mine.shares = values(0.7);
    ranks->begin_sum(mine.shares, kParts);
    ranks->end_sums();
    mine.gathered = torch::full({kCount}, world.rank(), torch::kUInt8);
    ranks->begin_copies(mine.gathered, kParts);
    mine.later = torch::full({kCount}, 10 + world.rank(), torch::kUInt8);
    ranks->begin_copies(mine.later, kParts);
    ranks->end_copies();
    mine.sent = torch::full({3, 5}, world.rank(), torch::kBFloat16);
    ranks->broadcast(mine.sent, num_ranks - 1);
  });
  return seen;
}

std::unique_ptr<RankTensors> by_stand_in(dist::Collectives& world) {
  return learner::ranks_by_nccl(world, torch::kCPU, QRL_NCCL_STAND_IN);
}

/// Orders faults from the stand-in, and ends them.
class Faults {
 public:
  explicit Faults(const NcclFaults& faults) { set(faults); }
  ~Faults() { set({}); }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
  static int num_aborted() { return function<int()>("nccl_stand_in_num_aborted")(); }
  static int num_delays() { return function<int()>("nccl_stand_in_num_delays")(); }

 private:
  template <class Function>
  static Function* function(const char* name) {
    static void* const library = dlopen(QRL_NCCL_STAND_IN, RTLD_NOW);
    return reinterpret_cast<Function*>(dlsym(library, name));
  }
  static void set(const NcclFaults& faults) { function<void(const NcclFaults*)>("nccl_stand_in_set_faults")(&faults); }
};

void check_equal(const std::vector<Seen>& got, const std::vector<Seen>& want) {
  for (std::size_t rank = 0; rank < got.size(); ++rank) {
    CAPTURE(got.size(), rank);
    CHECK(torch::equal(got[rank].sum, want[rank].sum));
    CHECK(torch::equal(got[rank].shares, want[rank].shares));
    CHECK(torch::equal(got[rank].gathered, want[rank].gathered));
    CHECK(torch::equal(got[rank].later, want[rank].later));
    CHECK(torch::equal(got[rank].sent, want[rank].sent));
  }
}

}  // namespace

TEST_CASE("NCCL ranks: random delays leave the exchanged bits equal") {
  const auto want = exchange(3, [](auto& world) { return learner::ranks_through_host(world); });
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const Faults faults({.seed = seed, .most_delay_us = 2000});
    check_equal(exchange(3, by_stand_in), want);
    CHECK(Faults::num_delays() >= 3 * 8);
  }
}

TEST_CASE("NCCL ranks: a lost rank ends the others with an error, and their communicators") {
  constexpr int kRanks = 3;
  const Part part{0, 4, 1};
  // Each rank ends a group and asks for errors in turn, four of each.
  for (int lost_in = 0; lost_in < 8; ++lost_in) {
    CAPTURE(lost_in);
    const Faults faults({.seed = 3, .most_delay_us = 500, .lost_rank = 1, .lost_in = lost_in});
    std::vector<std::string> said(kRanks);
    test::Ranks(kRanks).run([&](dist::Collectives& world) {
      const auto ranks = by_stand_in(world);
      const torch::Tensor values = torch::ones({4});
      try {
        for (int round = 0; round < 2; ++round) {
          ranks->begin_sum(values, {});
          ranks->end_sums();
          ranks->begin_copies(values, std::span(&part, 1));
          ranks->end_copies();
        }
      } catch (const base::Error& error) {
        said[static_cast<std::size_t>(world.rank())] = error.what();
        CHECK_THROWS_WITH(ranks->begin_sum(values, {}), Catch::Matchers::Contains("ranks that an error has parted"));
        CHECK_THROWS_WITH(ranks->end_sums(), Catch::Matchers::Contains("ranks that an error has parted"));
      }
    });
    for (const int rank : {0, 2})
      CHECK_THAT(said[static_cast<std::size_t>(rank)], Catch::Matchers::Contains("the stand-in's error"));
    CHECK(Faults::num_aborted() == kRanks);
  }
}

TEST_CASE("NCCL ranks: an exception aborts the rank's communicator, a normal end destroys it") {
  for (const bool throws : {false, true}) {
    const Faults faults({});
    test::Ranks(2).run([&](dist::Collectives& world) {
      try {
        const auto ranks = by_stand_in(world);
        if (throws) base::fail_internal("a rank's work", "success", "an error");
      } catch (const base::Error&) {
      }
    });
    CHECK(Faults::num_aborted() == (throws ? 2 : 0));
  }
}

TEST_CASE("NCCL ranks: exchange tensors on the GPU instead of through host memory") {
  for (const int num_ranks : {3, 4}) {
    const auto through_host = exchange(num_ranks, [](auto& world) { return learner::ranks_through_host(world); });
    const auto by_nccl = exchange(num_ranks, by_stand_in);
    check_equal(by_nccl, through_host);
    for (std::size_t rank = 0; rank < by_nccl.size(); ++rank) {
      CAPTURE(num_ranks, rank);
      // The results are correct: sums only at their owner, gathered bytes everywhere.
      const double sum = num_ranks * 0.3 * 7 + 0.1 * num_ranks * (num_ranks + 1) / 2;
      CHECK(test::close(by_nccl[rank].sum[7].item<float>(), sum, 0, 1e-6));
      const double own = 0.7 * 11 + 0.1 * (static_cast<double>(rank) + 1);
      const double all = num_ranks * 0.7 * 11 + 0.1 * num_ranks * (num_ranks + 1) / 2;
      CHECK(test::close(by_nccl[rank].shares[11].item<float>(), rank == 2 ? all : own, 0, 1e-6));
      CHECK(by_nccl[rank].gathered[12].item<int>() == 2);
      CHECK(by_nccl[rank].gathered[19].item<int>() == static_cast<int>(rank));
      CHECK(by_nccl[rank].later[12].item<int>() == 12);
      CHECK(by_nccl[rank].sent[2][4].item<float>() == static_cast<float>(num_ranks - 1));
    }
  }
}

TEST_CASE("NCCL copies: complete when they end, and nothing writes the buffers before") {
  const Part part{0, 8, 1};
  std::vector<torch::Tensor> during(2), after(2);
  std::vector<std::string> said(2);
  test::Ranks(2).run([&](dist::Collectives& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    const auto ranks = by_stand_in(world);
    const torch::Tensor values = torch::full({4}, world.rank() + 5, torch::kBFloat16);
    ranks->begin_copies(values, std::span(&part, 1));
    during[rank] = values.clone();
    ranks->end_copies();
    after[rank] = values.clone();
    ranks->begin_copies(values, std::span(&part, 1));
    if (rank == 1) values.add_(1);
    try {
      ranks->end_copies();
    } catch (const base::Error& error) {
      said[rank] = error.what();
    }
  });
  CHECK(during[0].isnan().all().item<bool>());
  CHECK((during[1] == 6).all().item<bool>());
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK((after[rank] == 6).all().item<bool>());
    CHECK_THAT(said[rank], Catch::Matchers::Contains("the stand-in's error"));
  }
}

// Hidden: the case below runs it in its own process, which it ends.
TEST_CASE("probe: a rank waits for one that has gone elsewhere", "[.]") {
  test::Ranks(2).run([&](dist::Collectives& world) {
    world.set_time_limit(1);
    const auto ranks = by_stand_in(world);
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::hours(1));
    const torch::Tensor values = torch::zeros({4});
    const Part part{0, 4, 1};
    const bool sums = std::string(std::getenv("QRL_WAIT")) == "sums";
    if (sums) ranks->begin_sum(values, std::span(&part, 1));
    else ranks->begin_copies(values, std::span(&part, 1));
    if (sums) ranks->end_sums();
    else ranks->end_copies();
  });
}

TEST_CASE("NCCL time limit: waiting for an operation that others never begin ends the process with its name") {
  const test::TempDir dir;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const std::string what : {"sums", "copies"}) {
    const std::string said = (dir / what).string();
    const int status =
        std::system(("QRL_WAIT=" + what + " timeout 120 '" + program +
                     "' 'probe: a rank waits for one that has gone elsewhere' > /dev/null 2> '" + said + "'")
                        .c_str());
    CHECK(WEXITSTATUS(status) == 1);
    CHECK_THAT(test::read_file(said), Catch::Matchers::Contains("waited 1 s for the other ranks' GPUs (" + what + ")"));
  }
}

TEST_CASE("NCCL library: one that is not NCCL is an input error") {
  const auto world = dist::make_solo();
  CHECK_THROWS_WITH(learner::ranks_by_nccl(*world, torch::kCPU, "libnowhere.so.9"),
                    Catch::Matchers::Contains("expected NCCL 2.4 or newer, got none (libnowhere.so.9"));
  CHECK_THROWS_WITH(learner::ranks_by_nccl(*world, torch::kCPU, "libm.so.6"),
                    Catch::Matchers::Contains("ncclGetVersion"));
}

TEST_CASE("NCCL errors: reported") {
  test::Ranks(2).run([](dist::Collectives& world) {
    const auto ranks = by_stand_in(world);
    const torch::Tensor values = torch::zeros({4});
    // The ranks call different operations, which the stand-in detects.
    const Part mine{0, static_cast<std::size_t>(1 + world.rank()), 0};
    ranks->begin_sum(values, std::span(&mine, 1));
    CHECK_THROWS_WITH(ranks->end_sums(), Catch::Matchers::Contains("the stand-in's error"));
  });
}

TEST_CASE("NCCL and host memory: leave the values of a GPU's only rank unchanged", "[ranks]") {
  const auto world = dist::make_solo();
  std::optional<torch::Device> device;
  if (!test::has_gpu(
          [&] { device.emplace(torch::kCUDA, static_cast<c10::DeviceIndex>(learner::load_cuda_library(0))); }))
    return;
  const auto there = torch::TensorOptions().dtype(torch::kFloat32).device(*device);
  const torch::Tensor want = torch::arange(1 << 20, torch::kFloat32).sin();
  const Part sums{128, 1 << 18, 0}, copies{0, 1 << 20, 0};
  for (const bool by_nccl : {true, false}) {
    CAPTURE(by_nccl);
    const auto ranks = by_nccl ? learner::ranks_by_nccl(*world, *device, "libnccl.so.2")
                               : learner::ranks_through_host(*world, *device);
    for (int round = 0; round < 3; ++round) {
      torch::Tensor values = torch::empty({1 << 20}, there);
      values.copy_(want);
      values.mul_(2);  // under way when the sum begins
      ranks->begin_sum(values, {});
      ranks->begin_sum(values, std::span(&sums, 1));
      ranks->end_sums();
      values.div_(2);
      ranks->begin_copies(values, std::span(&copies, 1));
      ranks->end_copies();
      ranks->broadcast(values, 0);
      CHECK(torch::equal(values.cpu(), want));
    }
  }
}

}  // namespace qrl
