#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "dist/collectives.h"

namespace qrl::dist {

struct Place {
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
};

/// Result of Messages::poll over all begun messages.
enum class Moved {
  all,      ///< every message is sent and received
  some,     ///< bytes moved; some messages are unfinished
  nothing,  ///< no byte moved, or the transport cannot tell
};

/// Sends and receives messages between the ranks of one job. Each begin_ function begins one message. The caller must
/// not touch its buffer until poll returns Moved::all. Messages between two ranks arrive in the order of the calls.
/// Sender and receiver must pass equal sizes.
class Messages {
 public:
  virtual ~Messages() = default;
  virtual Place place() const = 0;

  virtual void begin_send(std::span<const std::byte> bytes, int to) = 0;
  virtual void begin_receive(std::span<std::byte> bytes, int from) = 0;
  virtual void begin_broadcast(std::span<std::byte> bytes, int root) = 0;
  virtual void begin_barrier() = 0;
  virtual Moved poll() = 0;
  virtual bool waits_for(int peer) const = 0;

  /// Leaves the job. Call it after a last barrier. If MPI needs more than limit_s seconds, exits with an error.
  virtual void end(double limit_s) = 0;
};

/// Returns collective operations over `messages`, after a first barrier of at most join_limit_s seconds.
std::unique_ptr<Collectives> make_job(std::unique_ptr<Messages> messages, double join_limit_s);

/// Sets the function that abort_job calls before it exits.
void set_abort(void (*abort)(int exit_code));

/// Throws an internal error unless every part is within `size` elements and every owner is below num_ranks.
void check_parts(const char* where, std::span<const Part> parts, std::size_t size, int num_ranks);

inline constexpr const char* kJoinLimit = "QRL_JOIN_TIMEOUT_S";

struct Launch {
  std::string variable;       ///< the launcher's environment variable; empty: no launcher
  int num_ranks = 1;          ///< number of ranks; 0: several, but only MPI knows how many
  double join_limit_s = 600;  ///< longest wait for other ranks to start (kJoinLimit, at least 1)
};

/// Reads kJoinLimit and the environment variables of Open MPI, MPICH, Intel MPI, PMIx and Slurm. Throws an input error
/// for a value that is no positive integer.
Launch find_launch();

/// Throws an input error if WORLD_SIZE is above 1 and neither mpirun nor srun started this process. Then torchrun,
/// accelerate or a like launcher did, and each process would be a run of its own.
void require_no_other_launcher();

/// Joins the MPI job of several ranks that `launch` describes. Throws like make_world.
std::unique_ptr<Collectives> join_launched(const Launch& launch, int* argc, char*** argv);

/// Joins the job of start_ranks. Returns null in a process that start_ranks did not start.
std::unique_ptr<Collectives> join_local(const Launch& launch);

}  // namespace qrl::dist
