// Implements Collectives with MPI. MPI_Allreduce's order of addition depends on message size, rank count and topology,
// and may differ between ranks. Here each rank adds all terms of its part in rank order and sends the result, with the
// traffic of a ring all-reduce.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <type_traits>

#include "base/clock.h"
#include "base/error.h"
#include "dist/collectives.h"
#include "dist/deadline.h"
#include "dist/join.h"
#include "dist/parts.h"

namespace qrl::dist {
namespace {

/// MPI counts are int, so longer buffers are sent in pieces.
constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;
/// Bytes of an all-reduce processed at once, to bound its scratch memory.
constexpr std::size_t kWindowBytes = std::size_t{16} << 20;

/// Ends the job on any MPI failure, because other ranks would wait forever.
void on_mpi_error(MPI_Comm* /*comm*/, int* code, ...) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(*code, text, &length);
  std::fprintf(stderr, "qrl-train: MPI failed: %s\n", text);
  abort_job(1);
}

template <class Byte, class Body>
void for_each_piece(std::span<Byte> bytes, const Body& body) {
  for (std::size_t at = 0; at < bytes.size(); at += kMaxMessageBytes) {
    body(bytes.subspan(at, std::min(kMaxMessageBytes, bytes.size() - at)));
  }
}

class Mpi final : public Collectives {
 public:
  Mpi(const Launch& launch, int* argc, char*** argv) {
    int provided = 0;
    // MPI_Init and MPI_Finalize wait without a limit.
    const Deadline deadline(launch.join_limit_s, "waited " + whole(launch.join_limit_s) +
                                                     " s for the other ranks of the job to start: the job ends here (" +
                                                     std::string(kJoinLimit) + ")");
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_create_errhandler(on_mpi_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Errhandler_free(&handler);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm machine = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &local_size_);
    MPI_Comm_rank(machine, &local_rank_);
    MPI_Comm_free(&machine);
    QRL_INVARIANT(provided >= MPI_THREAD_FUNNELED, "MPI_Init_thread", "MPI_THREAD_FUNNELED", std::to_string(provided),
                  "use an MPI library built with thread support");
  }

  ~Mpi() override {
    // During an exception, other ranks may be in another call, so MPI_Finalize would hang. The launcher ends the job if
    // a process exits without it.
    if (std::uncaught_exceptions() != 0) return;
    const Deadline deadline(limit_s_, "waited " + whole(limit_s_) +
                                          " s for the other ranks to end: the job ends here "
                                          "(trainer.collective_timeout_s)");
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_size() const override { return local_size_; }
  int local_rank() const override { return local_rank_; }

  void set_time_limit(double seconds) override { limit_s_ = seconds; }
  double time_limit_s() const override { return limit_s_; }

  void barrier() override {
    Requests requests;
    MPI_Ibarrier(MPI_COMM_WORLD, &requests.add(kAll));
    wait(requests);
  }

  void all_reduce_sum(std::span<float> values) override { all_reduce(values, Sum{}); }
  void all_reduce_sum(std::span<double> values) override { all_reduce(values, Sum{}); }
  void all_reduce_sum(std::span<std::int64_t> values) override { all_reduce(values, Sum{}); }
  void all_reduce_max(std::span<double> values) override {
    all_reduce(values, [](double a, double b) { return std::isnan(a) || a > b ? a : b; });
  }
  void all_reduce_min(std::span<std::int64_t> values) override {
    all_reduce(values, [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
  }

  void reduce_scatter_sum(std::span<float> values, std::span<const Part> parts) override {
    check_parts("reduce_scatter_sum", parts, values.size(), size_);
    const std::vector<std::vector<std::span<float>>> windows = windows_of(values, parts);
    std::size_t num_rounds = 0;
    for (const auto& mine : windows) num_rounds = std::max(num_rounds, mine.size());
    for (std::size_t round = 0; round < num_rounds; ++round) {
      const auto window = [&](int rank) {
        const auto& theirs = windows[index(rank)];
        return round < theirs.size() ? theirs[round] : std::span<float>();
      };
      fold_mine(window, window(rank_), Sum{});
    }
  }

  void all_gather(std::span<std::byte> bytes, std::span<const Part> parts) override {
    check_parts("all_gather", parts, bytes.size(), size_);
    Requests requests;
    for (const Part& part : parts) {
      const std::span<std::byte> place = bytes.subspan(part.begin, part.count);
      if (part.owner != rank_) receive(place, part.owner, requests);
      for (int peer = 0; peer < size_ && part.owner == rank_; ++peer) {
        if (peer != rank_) send(place, peer, requests);
      }
    }
    wait(requests);
  }

  std::vector<std::string> all_gather(const std::string& mine) override {
    const std::uint64_t my_size_bytes = mine.size();
    std::vector<std::uint64_t> sizes_bytes(index(size_));
    gather(std::as_bytes(std::span(&my_size_bytes, 1)),
           [&](int rank) { return std::as_writable_bytes(std::span(&sizes_bytes[index(rank)], 1)); });
    std::vector<std::string> all(index(size_));
    for (std::size_t i = 0; i < all.size(); ++i) all[i].resize(sizes_bytes[i]);
    gather(std::as_bytes(std::span(mine)),
           [&](int rank) { return std::as_writable_bytes(std::span(all[index(rank)])); });
    return all;
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    QRL_INVARIANT(root >= 0 && root < size_, "broadcast", "a root below " + std::to_string(size_),
                  std::to_string(root));
    for_each_piece(bytes, [&](std::span<std::byte> piece) {
      Requests requests;
      MPI_Ibcast(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, root, MPI_COMM_WORLD,
                 &requests.add(rank_ == root ? kAll : root));
      wait(requests);
    });
  }

 private:
  struct Sum {
    template <class T>
    T operator()(T a, T b) const {
      return a + b;
    }
  };
  static constexpr int kAll = -1;

  /// Pending requests, and the rank that each one waits for (kAll: any).
  struct Requests {
    MPI_Request& add(int peer) {
      peers.push_back(peer);
      return requests.emplace_back(MPI_REQUEST_NULL);
    }
    std::vector<MPI_Request> requests;
    std::vector<int> peers;
  };

  static std::string whole(double seconds) { return std::to_string(std::llround(seconds)); }
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  std::vector<std::vector<std::span<float>>> windows_of(std::span<float> values, std::span<const Part> parts) const {
    const std::size_t longest = kWindowBytes / sizeof(float) / index(size_) + 1;
    std::vector<std::vector<std::span<float>>> windows(index(size_));
    for (const Part& part : parts) {
      for (std::size_t at = 0; at < part.count; at += longest) {
        windows[index(part.owner)].push_back(values.subspan(part.begin + at, std::min(longest, part.count - at)));
      }
    }
    return windows;
  }

  static void send(std::span<const std::byte> bytes, int to, Requests& requests) {
    for_each_piece(bytes, [&](std::span<const std::byte> piece) {
      MPI_Isend(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, to, 0, MPI_COMM_WORLD, &requests.add(to));
    });
  }

  static void receive(std::span<std::byte> bytes, int from, Requests& requests) {
    for_each_piece(bytes, [&](std::span<std::byte> piece) {
      MPI_Irecv(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, from, 0, MPI_COMM_WORLD, &requests.add(from));
    });
  }

  void wait(Requests& calls) const {
    double last_s = base::now_s(), waited_s = 0;
    for (int done = 0;;) {
      MPI_Testall(static_cast<int>(calls.requests.size()), calls.requests.data(), &done, MPI_STATUSES_IGNORE);
      if (done != 0) return;
      // Counts at most one second per check, so that time while suspended is not counted.
      const double now_s = base::now_s();
      waited_s += std::min(now_s - last_s, 1.0);
      last_s = now_s;
      if (waited_s > limit_s_) give_up(calls);
      // Spinning would take cores from ranks that compute for minutes. Sleeping a hundredth of the time waited adds at
      // most one percent.
      constexpr double kSpin_s = 1e-3, kLongestSleep_s = 5e-3;
      if (waited_s > kSpin_s) usleep(static_cast<useconds_t>(1e6 * std::min(waited_s / 100, kLongestSleep_s)));
    }
  }

  /// Ends the job with the names of the missing ranks.
  [[noreturn]] void give_up(const Requests& calls) const {
    std::string whom;
    for (int peer = 0; peer < size_; ++peer) {
      bool missing = false;
      for (std::size_t i = 0; i < calls.peers.size(); ++i) {
        missing = missing || (calls.requests[i] != MPI_REQUEST_NULL && calls.peers[i] == peer);
      }
      if (missing) whom += (whom.empty() ? " rank " : ", ") + std::to_string(peer);
    }
    std::fprintf(stderr,
                 "qrl-train: rank %d has waited %.0f s for%s: it hangs, or its machine does; the job ends here "
                 "(trainer.collective_timeout_s)\n",
                 rank_, limit_s_, whom.empty() ? " the other ranks" : whom.c_str());
    abort_job(1);
  }

  /// Copies every rank's bytes into place_of(rank), on all ranks. `mine` may already be there.
  template <class PlaceOf>
  void gather(std::span<const std::byte> mine, const PlaceOf& place_of) {
    Requests requests;
    for (int peer = 0; peer < size_; ++peer) {
      const std::span<std::byte> place = place_of(peer);
      if (peer != rank_) {
        receive(place, peer, requests);
        send(mine, peer, requests);
      } else if (place.data() != mine.data()) {
        std::ranges::copy(mine, place.begin());
      }
    }
    wait(requests);
  }

  /// Computes, in rank order, out = fold of all ranks' contributions to this rank. part_of(rank) is this rank's
  /// contribution to `rank`; `out` may be part_of(this rank).
  template <class T, class PartOf, class Fold>
  void fold_mine(const PartOf& part_of, std::span<T> out, const Fold& fold) {
    std::vector<T> terms(out.size() * index(size_));
    const auto terms_of = [&](int rank) { return std::span(terms).subspan(index(rank) * out.size(), out.size()); };
    Requests requests;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      receive(std::as_writable_bytes(terms_of(peer)), peer, requests);
      send(std::as_bytes(std::span<const T>(part_of(peer))), peer, requests);
    }
    std::ranges::copy(part_of(rank_), terms_of(rank_).begin());
    wait(requests);
    using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;
    for (std::size_t i = 0; i < out.size(); ++i) {
      Wide folded = terms[i];
      for (std::size_t term = i + out.size(); term < terms.size(); term += out.size()) {
        folded = fold(folded, static_cast<Wide>(terms[term]));
      }
      out[i] = static_cast<T>(folded);
    }
  }

  template <class T, class Fold>
  void all_reduce(std::span<T> values, const Fold& fold) {
    constexpr std::size_t kWindow = kWindowBytes / sizeof(T);
    for (std::size_t at = 0; at < values.size(); at += kWindow) {
      const std::span<T> window = values.subspan(at, std::min(kWindow, values.size() - at));
      const auto part_of = [&](int rank) {
        const std::size_t begin = window.size() * index(rank) / index(size_);
        return window.subspan(begin, window.size() * (index(rank) + 1) / index(size_) - begin);
      };
      fold_mine(part_of, part_of(rank_), fold);
      gather(std::as_bytes(part_of(rank_)), [&](int rank) { return std::as_writable_bytes(part_of(rank)); });
    }
  }

  double limit_s_ = kTimeLimit_s;
  int rank_ = 0;
  int size_ = 1;
  int local_size_ = 1;
  int local_rank_ = 0;
};

}  // namespace

std::unique_ptr<Collectives> join_job(const Launch& launch, int* argc, char*** argv) {
  auto job = std::make_unique<Mpi>(launch, argc, argv);
  const int met = job->size();
  if (launch.num_ranks > 0 && met != launch.num_ranks) {
    job.reset();
    base::fail_input("environment variable " + launch.variable, std::to_string(launch.num_ranks) + " ranks in one job",
                     std::to_string(met) + " met",
                     "start it with the mpirun of " + mpi_version() + ", or with srun --mpi=pmix");
  }
  return job;
}

void abort_job(int exit_code) {
  int begun = 0;
  int ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  if (begun != 0 && ended == 0) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  // Open MPI returns "Open MPI v4.1.4, package: …"; other libraries return several lines.
  const std::string whole(text, static_cast<std::size_t>(std::max(length, 0)));
  return whole.substr(0, whole.find_first_of(",\n"));
}

}  // namespace qrl::dist
