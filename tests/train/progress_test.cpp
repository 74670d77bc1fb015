// Tests the progress line on a pseudo-terminal.
#include "train/metrics/progress.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>

#include "base/log.h"
#include "support/catch.h"

using namespace qrl;

namespace {

/// Returns what a terminal shows of `write`, run in a child whose output and errors both go to it.
template <class Write>
std::string on_terminal(const Write& write) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE((master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0));
  const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  REQUIRE(slave >= 0);
  std::cout.flush();
  std::fflush(stdout);  // else the child also writes text buffered here
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(slave, STDOUT_FILENO);
    dup2(slave, STDERR_FILENO);
    write();
    std::fflush(stdout);
    _exit(0);
  }
  close(slave);
  std::string shown;
  char piece[512];
  for (ssize_t n = 0; (n = read(master, piece, sizeof piece)) > 0;) shown.append(piece, static_cast<std::size_t>(n));
  waitpid(child, nullptr, 0);
  close(master);
  return shown;
}

void steps_with_a_log_line() {
  train::Progress progress("step", 1, 3, false);
  progress.show(1, "a");
  base::log_info("committed x");
  base::log_info("and y");
  progress.show(2, "b");
}

}  // namespace

TEST_CASE("log lines: begin on their own line beside the progress line") {
  const std::string shown = on_terminal(steps_with_a_log_line);
  INFO(shown);
  CHECK(shown.find("\r\x1b[Kstep 1/3  a  left ") == 0);
  CHECK(shown.find("\r\ncommitted x\r\nand y\r\n\r\x1b[Kstep 2/3  b") != std::string::npos);
  CHECK(shown.ends_with("\r\n"));
}

TEST_CASE("progress under mpirun: plain lines, though each rank has a pseudo-terminal") {
  const std::string shown = on_terminal([] {
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    steps_with_a_log_line();
  });
  INFO(shown);
  CHECK(shown.find('\x1b') == std::string::npos);
  CHECK(shown.find("step 1/3  a") == 0);
}

TEST_CASE("progress line: shows the reward's history and held-out score as far as the terminal is wide") {
  const train::Metrics row = {{"critic/rewards/mean", 0.5}, {"mismatch/k3_kl", 1e-4}, {"perf/tokens_per_s", 5321}};
  const std::vector<double> rewards = {0, 0.25, 0.5};
  CHECK(train::terminal_facts(row, rewards, 0.25, 120) == "reward 0.500 ▁▅█  held-out 0.250  gap 1.0e-04  5321 tok/s");
  CHECK(train::terminal_facts(row, rewards, std::nan(""), 80) == "reward 0.500  gap 1.0e-04  5321 tok/s");
}

TEST_CASE("progress columns: only in a UTF-8 terminal") {
  const auto shown = [](const char* locale) {
    return on_terminal([locale] {
      setenv("LC_ALL", locale, 1);
      const train::Progress progress("step", 1, 3, false);
      std::printf("<%d>", progress.columns());
    });
  };
  CHECK(shown("C.UTF-8").find("<80>") != std::string::npos);
  CHECK(shown("C").find("<0>") != std::string::npos);
}
