// Owns the C interface of libqrl_mpi.so, which sends messages between ranks by MPI and is loaded at run time.
#pragma once

#include <cstddef>

extern "C" {

struct QrlMpiPlace {
  int rank, size, local_rank, local_size;
};

/// Holds the library's functions. The caller keeps buffers unchanged until `finished` returns 1. A failure of MPI ends
/// the job with a message.
struct QrlMpi {
  /// Initializes MPI and waits for the other ranks without a limit. Returns null, or the reason why MPI is unusable.
  const char* (*join)(int* argc, char*** argv, QrlMpiPlace* place);
  void (*send)(const void* bytes, std::size_t count, int to);
  void (*receive)(void* bytes, std::size_t count, int from);
  void (*broadcast)(void* bytes, std::size_t count, int root);
  void (*barrier)();
  int (*finished)();           ///< continues transfers; returns 1 if all begun transfers have ended
  int (*waits_for)(int peer);  ///< returns 1 if an unfinished call waits for `peer`
  void (*end)();
  void (*abort)(int exit_code);
  const char* (*version)();  ///< returns MPI's version text; may be called before `join`
};

[[gnu::visibility("default")]] const QrlMpi* qrl_mpi();
}
