// Tests runs that are told to stop: they stop soon, with exit code 75, and restart to the same bits.
#include <signal.h>
#include <unistd.h>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

/// Starts the tiny recipe, sends SIGTERM once `file` of the run folder exists, and returns the exit code.
int stop_at(const fs::path& run, const std::string& file, const std::string& arguments, const fs::path& log,
            std::uintmax_t bytes = 0) {
  const pid_t pid = test::start_command(test::tiny_command(run, arguments), log);
  CHECK(test::wait_for_file(run / file, pid, bytes));
  kill(pid, SIGTERM);
  return test::wait_for(pid);
}

/// Resumes a stopped run and compares it with an uninterrupted one.
void check_goes_on(const fs::path& whole, const fs::path& run, const std::string& arguments) {
  const test::Outcome outcome = test::run_command(test::tiny_command(run, arguments));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK(test::difference(whole, run) == "");
}

}  // namespace

TEST_CASE("SIGTERM: a checkpoint, exit 75, and equal bits after resuming") {
  const test::TempDir dir;
  const std::string longer = "--set rollout.n=64";  // so that it does not finish before it is stopped
  const int exit_code = stop_at(dir / "run", "rollouts/step_1.jsonl", longer, dir / "log");
  const std::string log = test::read_file(dir / "log");
  INFO(log);
  CHECK(exit_code == 75);
  CHECK(log.find("stopped by a signal; the checkpoint is in ") != std::string::npos);
  CHECK(log.find("error") == std::string::npos);  // a requested stop is no error
  CHECK_FALSE(fs::exists(dir / "run/checkpoints/step_4"));
  REQUIRE(test::run_command(test::tiny_command(dir / "whole", longer)).exit_code == 0);
  check_goes_on(dir / "whole", dir / "run", longer);
  CHECK(stop_at(dir / "ranks", "rollouts/step_1.jsonl", longer + " --ranks 2", dir / "log_of_ranks") == 75);
  CHECK(test::read_file(dir / "log_of_ranks").find("(rank ") == std::string::npos);  // the whole job stopped
}

namespace {

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("stop signal: confirmed at once by one line, from one rank") {
  for (const std::string ranks : {"", " --ranks 2"}) {
    for (const int number : {SIGINT, SIGXCPU}) {
      const test::TempDir dir;
      const pid_t pid = test::start_command(
          test::tiny_command(dir / "run", "--set rollout.n=64 --set trainer.total_training_steps=10000" + ranks),
          dir / "log");
      CHECK(test::wait_for_file(dir / "run/rollouts/step_1.jsonl", pid));
      kill(pid, number);
      if (number == SIGXCPU && ranks.empty()) kill(pid, SIGXCPU);  // the kernel sends it again and again
      CHECK(test::wait_for(pid) == 75);
      const std::string log = test::read_file(dir / "log");
      INFO(log);
      CHECK(count_of(log, "stopping after this step, with a checkpoint; once more exits at once\n") == 1);
      CHECK(log.rfind("stopping after this step") < log.rfind("committed "));
    }
  }
}

TEST_CASE("second signal, SIGQUIT: end a run at once, in one line each") {
  for (const bool quits : {false, true}) {
    const test::TempDir dir;
    const pid_t pid =
        test::start_command(test::tiny_command(dir / "run", "--set trainer.total_training_steps=10000"), dir / "log");
    CHECK(test::wait_for_file(dir / "run/rollouts/step_1.jsonl", pid));
    kill(pid, SIGSTOP);  // so that both signals wait for it
    kill(pid, quits ? SIGQUIT : SIGINT);
    if (!quits) kill(pid, SIGTERM);
    kill(pid, SIGCONT);
    const int exit_code = test::wait_for(pid);
    const std::string log = test::read_file(dir / "log");
    INFO(log);
    CHECK((quits ? exit_code == 128 + SIGQUIT : exit_code == 128 + SIGINT || exit_code == 128 + SIGTERM));
    CHECK(count_of(log, quits ? "ended at once by SIGQUIT; the same command resumes"
                              : "ended at once; the same command resumes") == 1);
    CHECK(count_of(log, "stopped by") == 0);
  }
}

TEST_CASE("SIGTERM to one rank: stops the job, and is no error") {
  for (const std::size_t rank : {0, 1}) {
    const test::TempDir dir;
    const pid_t pid = test::start_command(
        test::tiny_command(dir / "run", "--ranks 2 --set trainer.total_training_steps=10000"), dir / "log");
    CHECK(test::wait_for_file(dir / "run/rollouts/step_1.jsonl", pid));
    const std::vector<pid_t> ranks = test::children_of(pid);
    if (ranks.size() == 2) kill(ranks[rank], SIGTERM);
    else kill(pid, SIGKILL);
    const int exit_code = test::wait_for(pid);
    if (ranks.empty()) return test::skip("no /proc/PID/task/PID/children");
    const std::string log = test::read_file(dir / "log"), sessions = test::read_file(dir / "run/sessions.jsonl");
    INFO(log << sessions);
    CHECK(exit_code == 75);
    CHECK(count_of(log, "error") == 0);
    CHECK(count_of(log, "stopped by a signal; the checkpoint is in ") == 1);
    CHECK(count_of(sessions, "\"ended\":\"stopped by a signal\"") == 1);
  }
}

TEST_CASE("SIGTERM in the cold start: a checkpoint, exit 75, and equal bits after resuming") {
  const test::TempDir dir;
  const std::string longer = "--set sft.steps=60";
  const int exit_code = stop_at(dir / "run", "checkpoints/sft_5", longer, dir / "log");
  INFO(test::read_file(dir / "log"));
  CHECK(exit_code == 75);
  CHECK_FALSE(fs::exists(dir / "run/checkpoints/sft_60"));
  REQUIRE(test::run_command(test::tiny_command(dir / "whole", longer)).exit_code == 0);
  check_goes_on(dir / "whole", dir / "run", longer);
}

TEST_CASE("SIGTERM in a long evaluation: ends it before it completes") {
  const test::TempDir dir;
  const int exit_code = stop_at(dir / "run", "checkpoints/sft_12", "--set eval.n=60000", dir / "log");
  INFO(test::read_file(dir / "log"));
  CHECK(exit_code == 75);
  CHECK(test::stable_rows(dir / "run/metrics.jsonl").empty());
}

TEST_CASE("SIGTERM in an evaluation: no half row, the last step is kept, equal bits after resuming") {
  const test::TempDir dir;
  const std::string longer = "--set eval.n=500";
  REQUIRE(test::run_command(test::tiny_command(dir / "whole", longer)).exit_code == 0);

  CHECK(stop_at(dir / "before", "checkpoints/sft_12", longer, dir / "log") == 75);
  CHECK(test::stable_rows(dir / "before/metrics.jsonl").empty());
  check_goes_on(dir / "whole", dir / "before", longer);

  // Stops in the evaluation of step 2, and again in its repetition; the step's own checkpoint is not due.
  const std::string rare = longer + " --set trainer.save_freq=3";
  CHECK(stop_at(dir / "after", "rollouts/step_2.jsonl", rare, dir / "log") == 75);
  CHECK(test::names_in(dir / "after/checkpoints").back() == "step_2");
  CHECK(test::stable_rows(dir / "after/metrics.jsonl").size() == 2);
  const std::uintmax_t said = fs::file_size(dir / "after/log.txt");
  CHECK(stop_at(dir / "after", "log.txt", rare, dir / "log", said + 20) == 75);
  CHECK(test::stable_rows(dir / "after/metrics.jsonl").size() == 2);
  check_goes_on(dir / "whole", dir / "after", rare);

  // Stops in the last evaluation, which the restarted run repeats.
  CHECK(stop_at(dir / "last", "rollouts/step_4.jsonl", longer, dir / "log") == 75);
  CHECK(test::stable_rows(dir / "last/metrics.jsonl").size() == 4);
  check_goes_on(dir / "whole", dir / "last", longer);
  check_goes_on(dir / "whole", dir / "last", longer);
}

TEST_CASE("SIGTERM while sampling: the step is dropped, the last one is kept, equal bits after resuming") {
  const test::TempDir dir;
  // Without the entropy term groups with equal scores are skipped: sampling takes nearly all of a step.
  const std::string longer =
      "--set rollout.n=400 --set algorithm.entropy_coef=0 --set eval.freq=0 --set trainer.save_freq=0";
  REQUIRE(test::run_command(test::tiny_command(dir / "whole", longer)).exit_code == 0);
  const int exit_code = stop_at(dir / "run", "metrics.jsonl", longer, dir / "log", 1);
  INFO(test::read_file(dir / "log"));
  CHECK(exit_code == 75);
  CHECK(test::names_in(dir / "run/checkpoints").back() == "step_1");
  CHECK(test::names_in(dir / "run/rollouts") == std::vector<std::string>{"step_1.jsonl"});
  check_goes_on(dir / "whole", dir / "run", longer);
}

namespace {

/// Stops two ranks in the evaluation of step 2, and returns the job's exit code after comparing a resumed run.
int stop_two_ranks(const std::string& arguments, const std::string& launcher, int number) {
  const test::TempDir dir;
  const std::string longer = "--set eval.n=500 " + arguments;
  REQUIRE(test::run_command(test::tiny_command(dir / "whole", longer, launcher)).exit_code == 0);
  const pid_t pid = test::start_command("env " + test::tiny_command(dir / "run", longer, launcher), dir / "log");
  CHECK(test::wait_for_file(dir / "run/rollouts/step_2.jsonl", pid));
  kill(pid, number);
  const int exit_code = test::wait_for(pid);
  INFO(test::read_file(dir / "log"));
  CHECK(exit_code != 0);
  CHECK(test::names_in(dir / "run/checkpoints").back() == "step_2");
  CHECK(test::stable_rows(dir / "run/metrics.jsonl").size() == 2);
  REQUIRE(test::run_command(test::tiny_command(dir / "run", longer, launcher)).exit_code == 0);
  CHECK(test::difference(dir / "whole", dir / "run") == "");
  return exit_code;
}

}  // namespace

TEST_CASE("SIGTERM in an evaluation on two ranks: both agree, and resume with equal bits") {
  const std::string launcher = test::mpirun(2);
  if (launcher.empty()) return test::skip("no MPI");
  stop_two_ranks("", launcher, SIGUSR1);  // mpirun forwards it
}

TEST_CASE("SIGTERM to two ranks of --ranks: exit code 75, and equal bits after resuming") {
  CHECK(stop_two_ranks("--ranks 2", "", SIGTERM) == 75);
  CHECK(stop_two_ranks("--ranks 2", "", SIGINT) == 75);
}

TEST_CASE("progress reader: closing it does not end the run") {
  const test::TempDir dir;
  const test::Outcome outcome = test::run_command("( " + test::tiny_command(dir / "run") + " ) | head -n 1");
  INFO(outcome.output);
  CHECK(std::filesystem::exists(dir / "run" / "checkpoints" / "step_4" / "manifest.json"));
}
