// Joins an MPI job through libqrl_mpi.so, which is loaded on first use.
#include <dlfcn.h>

#include <array>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/shared_library.h"
#include "dist/deadline.h"
#include "dist/messages.h"
#include "dist/mpi_part.h"

namespace qrl::dist {
namespace {

struct MpiPart {
  const QrlMpi* functions = nullptr;
  bool is_built = false;
  std::string why;
};

MpiPart open_part() {
  const std::string file = base::own_library("libqrl_mpi.so");
  if (file.empty()) return {};
  // Needs global scope, because Open MPI's components use symbols of Open MPI's libraries without linking them.
  const base::SharedLibrary library = base::open_shared_library(std::array{file}, base::LibraryScope::global);
  if (library.handle == nullptr) return {nullptr, true, library.why};
  const auto functions = reinterpret_cast<decltype(&qrl_mpi)>(dlsym(library.handle, "qrl_mpi"));
  if (functions == nullptr) return {nullptr, true, file + ": no symbol qrl_mpi"};
  return {functions(), true, {}};
}

const MpiPart& part() {
  static const MpiPart opened = open_part();
  return opened;
}

std::string whole(double seconds) { return std::to_string(std::llround(seconds)); }

class MpiMessages final : public Messages {
 public:
  MpiMessages(const QrlMpi& mpi, const Launch& launch, int* argc, char*** argv) : mpi_(mpi) {
    // Limits MPI_Init, which waits for every rank without a limit.
    const Deadline deadline(launch.join_limit_s, "waited " + whole(launch.join_limit_s) +
                                                     " s for the other ranks of the job to start: the job ends here (" +
                                                     std::string(kJoinLimit) + ")");
    const char* why = mpi_.join(argc, argv, &place_);
    set_abort(mpi_.abort);
    QRL_REQUIRE(why == nullptr, "environment variable " + launch.variable, "a usable MPI library", std::string(why),
                "use a different MPI library");
  }

  Place place() const override { return {place_.rank, place_.size, place_.local_rank, place_.local_size}; }
  void begin_send(std::span<const std::byte> bytes, int to) override { mpi_.send(bytes.data(), bytes.size(), to); }
  void begin_receive(std::span<std::byte> bytes, int from) override { mpi_.receive(bytes.data(), bytes.size(), from); }
  void begin_broadcast(std::span<std::byte> bytes, int root) override {
    mpi_.broadcast(bytes.data(), bytes.size(), root);
  }
  void begin_barrier() override { mpi_.barrier(); }
  Moved poll() override { return mpi_.finished() != 0 ? Moved::all : Moved::nothing; }
  bool waits_for(int peer) const override { return mpi_.waits_for(peer) != 0; }
  void end(double limit_s) override {
    const Deadline deadline(limit_s, "waited " + whole(limit_s) +
                                         " s for the other ranks to end: the job ends here "
                                         "(trainer.collective_timeout_s)");
    mpi_.end();
  }

 private:
  const QrlMpi& mpi_;
  QrlMpiPlace place_ = {};
};

}  // namespace

std::unique_ptr<Collectives> join_launched(const Launch& launch, int* argc, char*** argv) {
  const std::string where = "environment variable " + launch.variable;
  const std::string seen = launch.num_ranks > 0 ? std::to_string(launch.num_ranks) + " ranks" : "several ranks";
  QRL_REQUIRE(part().is_built, where, "one process: this build has no MPI", seen,
              "on one machine start qrl-train --ranks N without mpirun; for several machines install libopenmpi-dev "
              "and rebuild with -DQRL_MPI=on");
  QRL_REQUIRE(part().functions != nullptr, where, "Open MPI's library for " + seen, "no library (" + part().why + ")",
              "install Open MPI (libopenmpi3), or on one machine start qrl-train --ranks N without mpirun");
  auto messages = std::make_unique<MpiMessages>(*part().functions, launch, argc, argv);
  const int met = messages->place().size;
  if (launch.num_ranks > 0 && met != launch.num_ranks) {
    messages->end(Collectives::kTimeLimit_s);
    base::fail_input(where, std::to_string(launch.num_ranks) + " ranks in one job",
                     std::to_string(met) + " that joined",
                     "start it with the mpirun of " + mpi_version() + ", or with srun --mpi=pmix");
  }
  return make_job(std::move(messages), launch.join_limit_s);
}

std::string mpi_version() {
  if (!part().is_built) return "off";
  if (part().functions == nullptr) return "none (" + part().why + ")";
  // Open MPI returns "Open MPI v4.1.4, package: …, ident: …"; other libraries return more lines.
  const std::string_view text = part().functions->version();
  return std::string(text.substr(0, text.find_first_of(",\n")));
}

}  // namespace qrl::dist
