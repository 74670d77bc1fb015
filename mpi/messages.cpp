// Implements the part's interface with MPI. Knows nothing of sums: src/dist/job.cpp adds up what arrives.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "dist/mpi_part.h"

namespace {

/// MPI counts are int, so longer buffers are sent in pieces.
constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;
constexpr int kAnyRank = -1;

/// Holds the pending requests and the rank that each waits for.
struct Requests {
  MPI_Request& add(int peer) {
    peers.push_back(peer);
    return requests.emplace_back(MPI_REQUEST_NULL);
  }
  std::vector<MPI_Request> requests;
  std::vector<int> peers;
};
Requests g_pending;
int g_rank = 0;

void abort_all(int exit_code) {
  int begun = 0;
  int ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  if (begun != 0 && ended == 0) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

/// Ends the job on any MPI failure. A rank that returned an error would leave the others waiting.
void on_mpi_error(MPI_Comm* /*comm*/, int* code, ...) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(*code, text, &length);
  std::fprintf(stderr, "qrl-train: MPI failed: %s\n", text);
  abort_all(1);
}

const char* join(int* argc, char*** argv, QrlMpiPlace* place) {
  int provided = 0;
  MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(on_mpi_error, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Errhandler_free(&handler);
  MPI_Comm_rank(MPI_COMM_WORLD, &place->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &place->size);
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place->rank, MPI_INFO_NULL, &machine);
  MPI_Comm_size(machine, &place->local_size);
  MPI_Comm_rank(machine, &place->local_rank);
  MPI_Comm_free(&machine);
  g_rank = place->rank;
  return provided >= MPI_THREAD_FUNNELED ? nullptr : "it was built without thread support (MPI_THREAD_FUNNELED)";
}

/// Calls begin(piece, count) for each piece of at most kMaxMessageBytes, in order.
template <class Byte, class Begin>
void for_each_piece(Byte* bytes, std::size_t count, const Begin& begin) {
  for (std::size_t at = 0; at < count; at += kMaxMessageBytes)
    begin(bytes + at, static_cast<int>(std::min(kMaxMessageBytes, count - at)));
}

void send(const void* bytes, std::size_t count, int to) {
  for_each_piece(static_cast<const char*>(bytes), count, [to](const char* piece, int size) {
    MPI_Isend(piece, size, MPI_BYTE, to, 0, MPI_COMM_WORLD, &g_pending.add(to));
  });
}

void receive(void* bytes, std::size_t count, int from) {
  for_each_piece(static_cast<char*>(bytes), count, [from](char* piece, int size) {
    MPI_Irecv(piece, size, MPI_BYTE, from, 0, MPI_COMM_WORLD, &g_pending.add(from));
  });
}

void broadcast(void* bytes, std::size_t count, int root) {
  for_each_piece(static_cast<char*>(bytes), count, [root](char* piece, int size) {
    MPI_Ibcast(piece, size, MPI_BYTE, root, MPI_COMM_WORLD, &g_pending.add(g_rank == root ? kAnyRank : root));
  });
}

void barrier() { MPI_Ibarrier(MPI_COMM_WORLD, &g_pending.add(kAnyRank)); }

int finished() {
  int done = 0;
  MPI_Testall(static_cast<int>(g_pending.requests.size()), g_pending.requests.data(), &done, MPI_STATUSES_IGNORE);
  if (done != 0) g_pending = {};
  return done;
}

int waits_for(int peer) {
  for (std::size_t i = 0; i < g_pending.peers.size(); ++i) {
    if (g_pending.requests[i] != MPI_REQUEST_NULL && g_pending.peers[i] == peer) return 1;
  }
  return 0;
}

void end() { MPI_Finalize(); }

const char* version() {
  static const std::string text = [] {
    char bytes[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(bytes, &length);
    return std::string(bytes, static_cast<std::size_t>(std::max(length, 0)));
  }();
  return text.c_str();
}

}  // namespace

const QrlMpi* qrl_mpi() {
  static const QrlMpi functions = {join,     send,      receive, broadcast, barrier,
                                   finished, waits_for, end,     abort_all, version};
  return &functions;
}
