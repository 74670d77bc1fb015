// Owns stop requests, by signals and by a run's time limit. The first SIGTERM, SIGINT, SIGHUP (except under nohup) or
// SIGUSR1 requests a checkpoint and exit 75 at the next consistent state. The next signal exits at once. mpirun
// forwards SIGUSR1 to its ranks, but on SIGTERM it kills them after 1 s.
#pragma once

namespace qrl::train {

void install_signal_handlers();
void set_time_limit(double seconds);
bool stop_requested();
/// Returns "a signal" or "trainer.max_time".
const char* stop_reason();

/// Exception thrown out of generation after a stop request.
struct Cancelled {};
void cancel_if_stopping();  ///< throws Cancelled after a stop request, unless a FinishFirst is alive

/// During its lifetime, generation finishes despite a stop request.
class FinishFirst {
 public:
  FinishFirst();
  ~FinishFirst();
  FinishFirst(const FinishFirst&) = delete;
  FinishFirst& operator=(const FinishFirst&) = delete;
};

}  // namespace qrl::train
