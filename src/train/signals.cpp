#include "train/signals.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <limits>

#include "base/clock.h"

namespace qrl::train {

namespace {

volatile std::sig_atomic_t g_stop = 0;
double g_deadline_s = std::numeric_limits<double>::infinity();
int g_finishing = 0;  // live FinishFirst objects; only the training loop's thread uses this number

volatile std::sig_atomic_t g_announces = 0;
bool g_stopping = false;

/// Writes to standard error; a signal handler may call it.
template <std::size_t N>
void announce(const char (&line)[N]) {
  if (g_announces == 0) return;
  if (isatty(STDERR_FILENO) != 0) (void)!write(STDERR_FILENO, "\n", 1);  // a line of progress may be open
  (void)!write(STDERR_FILENO, line, N - 1);
}

extern "C" void on_signal(int number) {
  const int error = errno;
  if (number == SIGQUIT) {
    announce("ended at once by SIGQUIT; the same command resumes from the newest checkpoint\n");
    _exit(128 + number);
  }
  if (g_stop != 0 && number == SIGXCPU) return;  // the kernel repeats it every second
  if (g_stop != 0) {
    announce("ended at once; the same command resumes from the newest checkpoint\n");
    _exit(128 + number);
  }
  g_stop = 1;
  announce("stopping after this step, with a checkpoint; once more exits at once\n");
  errno = error;
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGXCPU, SIGQUIT}) sigaction(number, &action, nullptr);
  struct sigaction before {};
  sigaction(SIGHUP, nullptr, &before);  // checks whether nohup ignores it
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe must not end the run; log.txt has the text
}

void announce_signals(bool announces) { g_announces = announces ? 1 : 0; }

void note_stop() { g_stopping = true; }
bool is_stopped() { return g_stopping; }

void set_time_limit(double seconds) { g_deadline_s = base::now_s() + seconds; }

bool stop_requested() { return g_stop != 0 || base::now_s() >= g_deadline_s; }

const char* stop_reason() { return g_stop == 0 && base::now_s() >= g_deadline_s ? "trainer.max_time" : "a signal"; }

void cancel_if_stopping() {
  if (g_finishing == 0 && stop_requested()) throw Cancelled{};
}

FinishFirst::FinishFirst() { ++g_finishing; }
FinishFirst::~FinishFirst() { --g_finishing; }

}  // namespace qrl::train
