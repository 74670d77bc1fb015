// Owns stop requests: signals and the time limit of a run. The first SIGTERM, SIGINT or SIGUSR1 asks for a checkpoint
// and exit 75 as soon as a state to keep is reached; a second one exits at once. (SIGUSR1, because mpirun forwards it
// to its ranks, while on SIGTERM it kills them a second later.)
#pragma once

namespace qrl::train {

void install_signal_handlers();
/// From now on, a stop is asked for once so many seconds have gone by.
void set_time_limit(double seconds);
bool stop_requested();
/// What asked for it: "a signal" or "trainer.max_time".
const char* stop_reason();

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
