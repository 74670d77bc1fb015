// The interface of libqrl_mpi.so: messages between ranks by MPI. It is in C and loaded at run time, because only jobs
// that a launcher starts need MPI.
#pragma once

#include <cstddef>

extern "C" {

struct QrlMpiPlace {
  int rank, size, local_rank, local_size;
};

/// The part's functions. Buffers stay the caller's and unchanged until `finished` returns 1. A failure of MPI ends the
/// job with a message.
struct QrlMpi {
  /// Initializes MPI and waits for the other ranks without a limit. Returns null, or the reason why MPI is unusable.
  const char* (*join)(int* argc, char*** argv, QrlMpiPlace* place);
  void (*send)(const void* bytes, std::size_t count, int to);
  void (*receive)(void* bytes, std::size_t count, int from);
  void (*broadcast)(void* bytes, std::size_t count, int root);
  void (*barrier)();
  int (*finished)();           ///< continues transfers; returns 1 if all begun transfers have ended
  int (*waits_for)(int peer);  ///< returns 1 if an unfinished call waits for this rank
  void (*end)();               ///< finalizes MPI
  void (*abort)(int exit_code);
  const char* (*version)();  ///< returns the library's text, before and after `join`
};

/// Returns the functions, which stay valid. No other symbol of the library is visible.
[[gnu::visibility("default")]] const QrlMpi* qrl_mpi();
}
