// Owns stop requests, by signals and by a run's time limit. The first SIGTERM, SIGINT, SIGHUP (except under nohup),
// SIGUSR1 or SIGXCPU requests a checkpoint and exit 75 at the next consistent state. The next of them, or SIGQUIT,
// exits at once. mpirun forwards SIGUSR1 to its ranks, but on SIGTERM it kills them after 1 s.
#pragma once

namespace qrl::train {

void install_signal_handlers();
/// Sets whether a signal is answered by a line on standard error. One rank of a job does so.
void announce_signals(bool announces);
/// Records that the run stops on request, possibly another rank's.
void note_stop();
bool is_stopped();  ///< whether note_stop was called
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
