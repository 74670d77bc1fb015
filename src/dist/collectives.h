#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace qrl::dist {

/// Describes elements [begin, begin + count) of an array that every rank has.
struct Part {
  std::size_t begin = 0, count = 0;
  int owner = 0;
};

/// Connects a job's ranks (processes). All ranks make the same calls with the same sizes, in the same order. Each rank
/// calls from one thread. Calls block. Buffers are CPU memory. The job ends if a rank is lost, or delays the others
/// beyond the time limit. Wrong sizes throw an internal error; calls throw no other errors. The destructor waits for
/// other ranks, so a rank that fails alone must first call abort_job.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_size() const = 0;
  virtual int local_rank() const = 0;

  static constexpr double kTimeLimit_s = 1800;  ///< the initial limit
  /// Sets the longest wait for other ranks. A solo world never waits.
  virtual void set_time_limit(double /*seconds*/) {}
  virtual double time_limit_s() const { return kTimeLimit_s; }

  virtual void barrier() = 0;
  /// Sums elementwise in rank order. The bits are equal on every rank and with every MPI library. fp32 values are added
  /// in fp64, and the sum is rounded once. fp64 values are added in fp64. Integers must not overflow.
  virtual void all_reduce_sum(std::span<float> values) = 0;
  virtual void all_reduce_sum(std::span<double> values) = 0;
  virtual void all_reduce_sum(std::span<std::int64_t> values) = 0;
  virtual void all_reduce_max(std::span<double> values) = 0;  ///< an element becomes NaN if any rank's is NaN
  virtual void all_reduce_min(std::span<std::int64_t> values) = 0;
  /// Computes the same bits as all_reduce_sum, but writes each part's sums only on the part's owner. Elements outside a
  /// rank's own parts do not change. Parts must not overlap, and must be the same on every rank.
  virtual void reduce_scatter_sum(std::span<float> values, std::span<const Part> parts) = 0;
  /// Copies each part from its owner to every rank. `begin` and `count` are in bytes. Parts must be as in
  /// reduce_scatter_sum.
  virtual void all_gather(std::span<std::byte> bytes, std::span<const Part> parts) = 0;
  /// Returns all ranks' byte strings in rank order. Their sizes may differ.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;

  bool is_first() const { return rank() == 0; }
  /// Returns on every rank whether `mine` is true on any rank.
  bool any(bool mine);
};

/// Assigns items to ranks, the largest load first. Each item gets the least loaded rank, in a tie the lowest. Returns
/// each item's rank.
std::vector<int> share_out(std::span<const double> loads, int num_ranks);

std::unique_ptr<Collectives> make_solo();

inline constexpr int kMaxLocalRanks = 256;
/// Starts `count` ranks of a job as child processes on this machine, and returns in each child. make_world then joins
/// the job. The parent does not return. It passes SIGTERM, SIGINT, SIGHUP and SIGUSR1 on to the ranks, ends all ranks
/// if one is lost, and exits with the job's exit code. Ranks die with the parent. Does nothing if `count` is 1. Call it
/// before the process has other threads. Throws an input error in a job that mpirun or srun started, or if the machine
/// refuses memory or processes.
void start_ranks(int count);

/// Joins the job of start_ranks, or an MPI job if mpirun or srun started several processes. Otherwise returns a solo
/// job without MPI. Call it once, from the main thread. Throws an input error if the processes cannot connect, because
/// MPI is missing or the launcher belongs to another MPI.
std::unique_ptr<Collectives> make_world(int* argc, char*** argv);

/// Ends all ranks at once with this exit code; a solo world calls std::_Exit.
[[noreturn]] void abort_job(int exit_code);

/// Returns the MPI library's version ("Open MPI v4.1.4"); "off" for a build without MPI, "none (REASON)" for a machine
/// without it.
std::string mpi_version();

}  // namespace qrl::dist
