// Owns the communication between the processes (ranks) of one run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace qrl::dist {

/// Names elements [begin, begin + count) of an array that every rank holds, and the rank that owns them.
struct Part {
  std::size_t begin = 0, count = 0;
  int owner = 0;
};

/// Connects the ranks of one job. Every rank makes the same calls, with the same sizes, in the same order and from one
/// thread. All calls block; a long wait sleeps. Buffers are CPU memory of any size; two arguments alias only if they
/// are the same span. The job ends if a rank is lost, or if the others wait for it longer than the time limit. Calls
/// return no errors except the internal error for wrong sizes. The destructor waits for the other ranks, so a rank that
/// fails alone calls abort_job first.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Returns the number of ranks of this job on this machine. Callers divide the machine's processors by it, unless the
  /// launcher has already bound each rank to its own share.
  virtual int local_size() const = 0;
  virtual int local_rank() const = 0;  ///< index of this rank among them

  static constexpr double kTimeLimit_s = 1800;  ///< the initial limit
  /// Sets the longest wait of a call for the other ranks, in seconds. A solo world never waits.
  virtual void set_time_limit(double /*seconds*/) {}
  virtual double time_limit_s() const { return kTimeLimit_s; }

  virtual void barrier() = 0;
  /// Sums elementwise over ranks. Terms are added in rank order, so the bits are the same on every rank and with every
  /// MPI library. fp32 values are added in fp64 and rounded once; fp64 values in fp64; integers must not overflow.
  virtual void all_reduce_sum(std::span<float> values) = 0;
  virtual void all_reduce_sum(std::span<double> values) = 0;
  virtual void all_reduce_sum(std::span<std::int64_t> values) = 0;
  virtual void all_reduce_max(std::span<double> values) = 0;  ///< NaN if any rank has NaN
  virtual void all_reduce_min(std::span<std::int64_t> values) = 0;
  /// Sums over ranks with the bits of all_reduce_sum, but each part only on its owner. In the other ranks' parts
  /// `values` keeps this rank's own terms. Parts have any size and order, must not overlap, and are the same on every
  /// rank.
  virtual void reduce_scatter_sum(std::span<float> values, std::span<const Part> parts) = 0;
  /// Copies each part from its owner to every rank. Parts count bytes; otherwise they are like those of
  /// reduce_scatter_sum.
  virtual void all_gather(std::span<std::byte> bytes, std::span<const Part> parts) = 0;
  /// Returns the byte strings of all ranks, of any size, in rank order.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;

  bool is_first() const { return rank() == 0; }
  /// Returns true on every rank if `mine` is true on any.
  bool any(bool mine);
};

/// Assigns items of the given loads to ranks: the largest item first, each to the least loaded rank (the lowest in a
/// tie). Returns the rank of each item, the same on every rank.
std::vector<int> share_out(std::span<const double> loads, int num_ranks);

std::unique_ptr<Collectives> make_solo();

/// Returns the job of this process: MPI if mpirun or srun started several processes, else solo without touching MPI.
/// Called once, from the main thread. Throws an input error if the processes cannot connect: a build without MPI, or
/// another MPI's launcher.
std::unique_ptr<Collectives> make_world(int* argc, char*** argv);

/// Ends every rank of the job at once with this exit code. A solo world calls std::_Exit.
[[noreturn]] void abort_job(int exit_code);

/// Returns the version of the MPI library in the build ("Open MPI v4.1.4"), or "off".
std::string mpi_version();

}  // namespace qrl::dist
