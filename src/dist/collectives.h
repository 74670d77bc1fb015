// Owns how processes of one run meet. Knows nothing of what they exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace qrl::dist {

/// Ranks of one job, in lock step: every rank makes the same calls in the same order. All calls block. Buffers are CPU
/// memory. A lost rank ends the job (the launcher kills the rest); nothing here returns an error.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Ranks of this job on this machine, to divide its processors.
  virtual int local_size() const = 0;

  virtual void barrier() = 0;
  virtual void all_reduce_sum(std::span<float> values) = 0;    ///< fp32 sums; same bits on every rank
  virtual void all_reduce_sum(std::span<double> values) = 0;   ///< fp64 sums; same bits on every rank
  virtual void all_reduce_sum(std::span<std::int64_t> values) = 0;
  virtual void all_reduce_max(std::span<double> values) = 0;
  virtual void all_reduce_min(std::span<std::int64_t> values) = 0;
  /// Sums `values` over ranks; rank r gets the r-th of size() equal blocks in `mine`. values.size() = size()·mine.size().
  virtual void reduce_scatter_sum(std::span<const float> values, std::span<float> mine) = 0;
  /// Blocks of equal size, in rank order.
  virtual void all_gather(std::span<const float> mine, std::span<float> all) = 0;
  /// Byte strings of any size, in rank order.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;

  bool is_first() const { return rank() == 0; }
  /// True on every rank when it is true on any.
  bool any(bool mine);
};

/// One process alone.
std::unique_ptr<Collectives> make_solo();

/// The job this process was started in: MPI under mpirun (or srun) when built with it, else solo. Throws an input
/// error when the process was started by mpirun but the build has no MPI.
std::unique_ptr<Collectives> make_world(int* argc, char*** argv);

/// Ends every rank of the job with this exit code, at once. Solo: std::_Exit.
[[noreturn]] void abort_job(int exit_code);

/// Version of the MPI built with, or "off".
std::string mpi_version();

}  // namespace qrl::dist
