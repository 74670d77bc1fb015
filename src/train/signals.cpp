#include "train/signals.h"

#include <unistd.h>

#include <csignal>
#include <limits>

#include "base/clock.h"

namespace qrl::train {

namespace {

volatile std::sig_atomic_t g_stop = 0;
double g_deadline_s = std::numeric_limits<double>::infinity();
int g_finishing = 0;  // live FinishFirst objects; only the training loop's thread uses this number

extern "C" void on_signal(int number) {
  if (g_stop != 0) _exit(128 + number);
  g_stop = 1;
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaction(number, &action, nullptr);
  struct sigaction before {};
  sigaction(SIGHUP, nullptr, &before);  // checks whether nohup ignores it
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe must not end the run; log.txt has the text
}

void set_time_limit(double seconds) { g_deadline_s = base::now_s() + seconds; }

bool stop_requested() { return g_stop != 0 || base::now_s() >= g_deadline_s; }

const char* stop_reason() { return g_stop == 0 && base::now_s() >= g_deadline_s ? "trainer.max_time" : "a signal"; }

void cancel_if_stopping() {
  if (g_finishing == 0 && stop_requested()) throw Cancelled{};
}

FinishFirst::FinishFirst() { ++g_finishing; }
FinishFirst::~FinishFirst() { --g_finishing; }

}  // namespace qrl::train
