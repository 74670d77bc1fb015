// Owns stop requests. The first SIGTERM, SIGINT or SIGUSR1 asks for a checkpoint and exit 75 as soon as a
// state to keep is reached; a second one exits at once. (SIGUSR1, because mpirun forwards it to its ranks, while on
// SIGTERM it kills them a second later.)
#pragma once

namespace qrl::train {

void install_signal_handlers();
bool stop_requested();

/// Thrown out of generation by the sampler once a stop is requested.
struct Abandoned {};
void abandon_if_stopping();  ///< throws it, unless a FinishFirst is alive

/// While one is alive, generation goes on in spite of a stop: for the few tokens of a probe within a step.
class FinishFirst {
 public:
  FinishFirst();
  ~FinishFirst();
  FinishFirst(const FinishFirst&) = delete;
  FinishFirst& operator=(const FinishFirst&) = delete;
};

}  // namespace qrl::train
