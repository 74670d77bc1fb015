// Owns how processes of one run meet. Knows nothing of what they exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace qrl::dist {

/// Elements [begin, begin + count) of an array that every rank holds; one of them owns these.
struct Part {
  std::size_t begin = 0, count = 0;
  int owner = 0;
};

/// Ranks of one job, in lock step: every rank makes the same calls, with the same sizes, in the same order and from one
/// thread. All calls block; a long wait sleeps, so that it costs the working ranks nothing. Buffers are CPU memory of
/// any size, not aliased unless it is the same span. A lost rank ends the job (the launcher kills the rest), and so
/// does one that the others have waited for longer than the time limit: a hung process or machine. Nothing here returns
/// an error but the internal one for wrong sizes. Destroying it meets the other ranks, so a rank that fails alone calls
/// abort_job instead of leaving quietly.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Ranks of this job on this machine, to divide its processors. A launcher may have bound this rank to its share of
  /// them already: then the processors it may run on are divided, and dividing them again would be once too often.
  virtual int local_size() const = 0;
  virtual int local_rank() const = 0;  ///< of these, from 0

  static constexpr double kTimeLimit_s = 1800;  ///< at first
  /// Longest that a call may wait for the other ranks, seconds. Solo: nothing to wait for.
  virtual void set_time_limit(double /*seconds*/) {}
  virtual double time_limit_s() const { return kTimeLimit_s; }

  virtual void barrier() = 0;
  /// Elementwise sums over ranks, the same bits on every rank and whatever the MPI library: terms are added in rank
  /// order. fp32 values are added in fp64 and rounded once; fp64 in fp64; integers must not overflow.
  virtual void all_reduce_sum(std::span<float> values) = 0;
  virtual void all_reduce_sum(std::span<double> values) = 0;
  virtual void all_reduce_sum(std::span<std::int64_t> values) = 0;
  virtual void all_reduce_max(std::span<double> values) = 0;  ///< NaN where any rank has NaN
  virtual void all_reduce_min(std::span<std::int64_t> values) = 0;
  /// Sums over ranks, with the bits all_reduce_sum would give, each part for its owner alone: of the others' parts
  /// `values` keeps this rank's own terms. Parts may be of any size and order but not overlap; the same on every rank.
  virtual void reduce_scatter_sum(std::span<float> values, std::span<const Part> parts) = 0;
  /// Gives every rank each part as its owner holds it. Parts of bytes, otherwise as above.
  virtual void all_gather(std::span<std::byte> bytes, std::span<const Part> parts) = 0;
  /// Byte strings of any size, in rank order.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  /// `bytes` of rank `root`, on every rank.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;

  bool is_first() const { return rank() == 0; }
  /// True on every rank when it is true on any.
  bool any(bool mine);
};

/// Who of num_ranks takes what weighs `loads`: largest first, each to whom the least was given so far (the first of
/// them), so that every rank finds the same.
std::vector<int> share_out(std::span<const double> loads, int num_ranks);

/// One process alone.
std::unique_ptr<Collectives> make_solo();

/// The job this process was started in: MPI when mpirun or srun started several, else solo, without touching MPI.
/// Called once, from the main thread. Throws an input error when several were started but cannot meet: a build without
/// MPI, or a launcher of another MPI.
std::unique_ptr<Collectives> make_world(int* argc, char*** argv);

/// Ends every rank of the job with this exit code, at once. Solo: std::_Exit.
[[noreturn]] void abort_job(int exit_code);

/// The MPI built with ("Open MPI v4.1.4"), or "off".
std::string mpi_version();

}  // namespace qrl::dist
