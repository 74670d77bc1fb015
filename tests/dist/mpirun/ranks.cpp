// Runs under mpirun, or with QRL_TEST_RANKS=N as N ranks that this program starts, as --ranks does. Every rank runs
// every case, in the same order, in one shared job.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "dist/collectives.h"
#include "support/catch.h"

using qrl::dist::Collectives;

namespace {

/// Starts the ranks before main, so that each has a test session of its own.
const bool kStarted = [] {
  const char* count = std::getenv("QRL_TEST_RANKS");
  if (count != nullptr) qrl::dist::start_ranks(std::atoi(count));
  return count != nullptr;
}();

Collectives& world() {
  static const std::unique_ptr<Collectives> job = qrl::dist::make_world(nullptr, nullptr);
  return *job;
}

/// Returns the values of rank `rank`, of magnitudes up to 2^19 so that the order of addition shows in fp32. Every rank
/// can compute the values of the others.
std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  std::uint32_t word = 2654435761U * static_cast<std::uint32_t>(rank + 1);
  for (float& value : values) {
    word = word * 1664525U + 1013904223U;
    value = std::ldexp(static_cast<float>(static_cast<std::int32_t>(word)), static_cast<int>(word >> 12) % 20 - 31);
  }
  return values;
}

/// Computes the sum over ranks by hand: fp64, in rank order, rounded once.
std::vector<float> sum_by_hand(std::size_t count) {
  std::vector<double> sums(count, 0.0);
  for (int rank = 0; rank < world().size(); ++rank) {
    const std::vector<float> values = values_of(rank, count);
    for (std::size_t i = 0; i < count; ++i) sums[i] += static_cast<double>(values[i]);
  }
  return {sums.begin(), sums.end()};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// Below, at and above the number of ranks, and across the boundary of an all-reduce window (16 MiB).
const std::vector<std::size_t> kCounts = {0, 1, 2, 3, 7, 257, (std::size_t{4} << 20) + 3};

/// Writes this process's id into the folder QRL_PID_DIR, for the script that kills a rank.
void tell_pid(int rank) {
  std::ofstream file(std::string(std::getenv("QRL_PID_DIR")) + "/" + std::to_string(rank));
  file << getpid() << '\n';
}

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
std::size_t ranks() { return index(world().size()); }

}  // namespace

TEST_CASE("ranks: those of one job join one world") {
  if (kStarted) {
    REQUIRE(world().size() == std::stoi(std::getenv("QRL_TEST_RANKS")));
    CHECK(world().local_size() == world().size());
    CHECK(world().local_rank() == world().rank());
    int total = 0;  // each number is there once
    for (const std::string& rank : world().all_gather(std::to_string(world().rank()))) total += 1 << std::stoi(rank);
    CHECK(total == (1 << world().size()) - 1);
    world().barrier();
    return;
  }
  REQUIRE(world().size() == std::stoi(std::getenv("OMPI_COMM_WORLD_SIZE")));
  CHECK(world().rank() == std::stoi(std::getenv("OMPI_COMM_WORLD_RANK")));
  CHECK(world().local_size() == std::stoi(std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE")));
  CHECK(world().local_rank() == std::stoi(std::getenv("OMPI_COMM_WORLD_LOCAL_RANK")));
  CHECK(world().is_first() == (world().rank() == 0));
  world().barrier();
}

TEST_CASE("ranks: fp32 sums equal sums by hand, with the same bits on every rank") {
  for (const std::size_t count : kCounts) {
    std::vector<float> values = values_of(world().rank(), count);
    world().all_reduce_sum(values);
    CHECK(same_bits(values, sum_by_hand(count)));
    const std::string mine(reinterpret_cast<const char*>(values.data()), count * sizeof(float));
    for (const std::string& theirs : world().all_gather(mine)) CHECK(theirs == mine);
  }
}

TEST_CASE("ranks: fp64 and integer sums, maximum and minimum") {
  const int rank = world().rank();
  const int size = world().size();
  const int rank_total = size * (size + 1) / 2;
  for (const std::size_t count : {std::size_t{1}, std::size_t{5}, (std::size_t{2} << 20) + 1}) {
    std::vector<double> doubles(count);
    std::vector<std::int64_t> integers(count);
    std::vector<double> high(count);
    std::vector<std::int64_t> low(count);
    for (std::size_t i = 0; i < count; ++i) {
      doubles[i] = (rank + 1) * 0x1p-30 + static_cast<double>(i);
      integers[i] = (std::int64_t{1} << 53) + rank + static_cast<std::int64_t>(i);
      high[i] = -1.0 - std::abs(static_cast<double>(i % 3) - rank);
      low[i] = i % index(size) == index(rank) ? -static_cast<std::int64_t>(i) : 7;
    }
    world().all_reduce_sum(doubles);
    world().all_reduce_sum(integers);
    world().all_reduce_max(high);
    world().all_reduce_min(low);
    bool right = true;
    for (std::size_t i = 0; i < count; ++i) {
      const double nearest = std::max(0.0, static_cast<double>(i % 3) - (size - 1));
      right = right && doubles[i] == rank_total * 0x1p-30 + size * static_cast<double>(i);
      right = right &&
              integers[i] == size * ((std::int64_t{1} << 53) + static_cast<std::int64_t>(i)) + size * (size - 1) / 2;
      right = right && high[i] == -1.0 - nearest && low[i] == -static_cast<std::int64_t>(i);
    }
    CHECK(right);
  }
}

TEST_CASE("ranks: a NaN or an infinity on one rank reaches every rank") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> sums = {world().rank() == 1 ? std::nanf("") : 1.0F, world().rank() == 0 ? kInfinity : 1.0F};
  world().all_reduce_sum(sums);
  CHECK(std::isnan(sums[0]));
  CHECK(sums[1] == kInfinity);
  for (int poisoned = 0; poisoned < world().size(); ++poisoned) {
    std::vector<double> high = {world().rank() == poisoned ? std::nan("") : 2.0};
    world().all_reduce_max(high);
    CHECK(std::isnan(high[0]));
    CHECK(world().any(world().rank() == poisoned));
  }
  CHECK_FALSE(world().any(false));
}

namespace {

/// Returns uneven parts with gaps between them, in no order. Rank r owns some small parts and one of large + r
/// elements; the last rank owns none.
std::vector<qrl::dist::Part> uneven_parts(std::size_t large, std::size_t& size) {
  std::vector<qrl::dist::Part> parts;
  size = 3;
  const int num_owners = world().size() - 1;
  for (int i = 0; i < 5 * num_owners; ++i) {
    const int owner = (i * 3 + 1) % num_owners;
    const std::size_t count = i < num_owners ? large + index(i) : index(i) % 4;
    parts.push_back({size, count, owner});
    size += count + 1;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

TEST_CASE("ranks: reduce-scatter gives each owner the sums of its parts, and leaves the rest") {
  for (const std::size_t large : {std::size_t{0}, std::size_t{1}, std::size_t{7}, (std::size_t{3} << 20) + 5}) {
    std::size_t size = 0;
    const auto parts = uneven_parts(large, size);
    std::vector<float> values = values_of(world().rank(), size), want = values;
    const std::vector<float> sums = sum_by_hand(size);
    for (const auto& part : parts) {
      if (part.owner != world().rank()) continue;
      std::copy_n(sums.data() + part.begin, part.count, want.data() + part.begin);
    }
    world().reduce_scatter_sum(values, parts);
    CHECK(same_bits(values, want));
  }
}

TEST_CASE("ranks: all-gather gives every rank each part as its owner has it, and leaves the rest") {
  for (const std::size_t large : {std::size_t{0}, std::size_t{1}, std::size_t{7}, (std::size_t{3} << 20) + 5}) {
    std::size_t size = 0;
    const auto parts = uneven_parts(large, size);
    std::string bytes(size, static_cast<char>('a' + world().rank())), want = bytes;
    for (const auto& part : parts)
      std::fill_n(want.data() + part.begin, part.count, static_cast<char>('a' + part.owner));
    world().all_gather(std::as_writable_bytes(std::span(bytes)), parts);
    CHECK(bytes == want);
  }
}

TEST_CASE("ranks: parts outside the array or without an owner are refused on every rank") {
  std::vector<float> values(3);
  const qrl::dist::Part beyond{2, 2, 0}, nobodys{0, 1, world().size()};
  CHECK_THROWS_AS(world().reduce_scatter_sum(values, {&beyond, 1}), qrl::base::Error);
  CHECK_THROWS_AS(world().all_gather(std::as_writable_bytes(std::span(values)), {&nobodys, 1}), qrl::base::Error);
}

TEST_CASE("ranks: byte strings of unequal sizes are gathered in rank order") {
  const auto string_of = [](int rank) {  // empty, then with NULs, then longer than any buffer of the MPI library
    return rank == 0 ? std::string() : std::string(rank == 1 ? 3 : 5'000'000, static_cast<char>(rank - 1));
  };
  const std::vector<std::string> all = world().all_gather(string_of(world().rank()));
  REQUIRE(all.size() == ranks());
  for (int rank = 0; rank < world().size(); ++rank) CHECK(all[index(rank)] == string_of(rank));
}

TEST_CASE("ranks: broadcast sends the root's bytes") {
  for (int root = 0; root < world().size(); ++root) {
    std::string bytes(1000, static_cast<char>('a' + world().rank()));
    world().broadcast(std::as_writable_bytes(std::span(bytes)), root);
    CHECK(bytes == std::string(1000, static_cast<char>('a' + root)));
  }
  world().broadcast({}, 0);
}

TEST_CASE("ranks: messages above 2 GiB arrive whole", "[.long]") {
  if (std::getenv("QRL_LONG_TESTS") == nullptr) return qrl::test::skip("8 GiB of memory: scripts/test --long");
  constexpr std::size_t kBytes = (std::size_t{1} << 31) + 5;
  std::string bytes(world().is_first() ? kBytes : 0, 'x');
  if (world().is_first()) bytes.back() = 'y';
  const std::vector<std::string> all = world().all_gather(bytes);
  CHECK(all[0].size() == kBytes);
  CHECK(all[0].find_first_not_of('x') == kBytes - 1);
}

TEST_CASE("ranks: those of a launcher that MPI does not join are refused", "[.foreign]") {
  // Started alone, but with variables for two ranks: mpirun of another MPI does that to each of its processes.
  try {
    qrl::dist::make_world(nullptr, nullptr);
    FAIL("accepted");
  } catch (const qrl::base::Error& error) {
    CHECK(error.exit_code() == 2);
    CHECK(std::string(error.what()).find("SLURM_STEP_NUM_TASKS") != std::string::npos);
  }
}

TEST_CASE("ranks: one aborts while the others wait", "[.abort]") {
  if (world().rank() == world().size() - 1) qrl::dist::abort_job(75);
  world().barrier();
  FAIL("a rank came out of a barrier that nobody else reached");
}

TEST_CASE("ranks: one throws while the others wait", "[.throw]") {
  // Same as in main: the exception passes through the world's destructor.
  const auto mine = qrl::dist::make_world(nullptr, nullptr);
  if (mine->rank() == mine->size() - 1) throw std::runtime_error("only here");
  mine->barrier();
  FAIL("a rank came out of a barrier that nobody else reached");
}

TEST_CASE("ranks: they wait for one that never starts", "[.late]") {
  // A rank of start_ranks learns its number as it joins. Of these two the first to make the folder does.
  const std::string folder = std::string(std::getenv("QRL_PID_DIR")) + "/joins";
  const int rank =
      kStarted ? (mkdir(folder.c_str(), 0700) == 0 ? 0 : 1) : std::stoi(std::getenv("OMPI_COMM_WORLD_RANK"));
  tell_pid(rank);
  if (rank == std::stoi(std::getenv(kStarted ? "QRL_TEST_RANKS" : "OMPI_COMM_WORLD_SIZE")) - 1) sleep(3600);
  world();
  FAIL("a rank met others that have not started");
}

TEST_CASE("ranks: they wait for one that never ends", "[.stay]") {
  const auto mine = qrl::dist::make_world(nullptr, nullptr);
  tell_pid(mine->rank());
  mine->set_time_limit(3);
  if (mine->rank() == mine->size() - 1) sleep(3600);
}

TEST_CASE("ranks: they wait for one to be killed or stopped", "[.wait]") {
  // The last rank sleeps, the others wait for it in a collective.
  tell_pid(world().rank());
  world().barrier();
  if (world().rank() == world().size() - 1) sleep(3600);
  const std::string loss = std::getenv("QRL_LOSS");
  if (loss != "kill") world().set_time_limit(loss == "hang" ? 3 : 10);
  std::vector<float> values(100, 1.0F);
  world().all_reduce_sum(values);
}
