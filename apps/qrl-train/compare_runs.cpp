#include "compare_runs.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/limits.h"
#include "base/python.h"
#include "command.h"
#include "compare_arms.h"
#include "config/yaml/scalars.h"
#include "ops/isa.h"
#include "report/sessions.h"
#include "state/file.h"
#include "train/recipe/catalog.h"
#include "train/signals.h"

extern char** environ;

namespace qrl::app {

namespace {

namespace fs = std::filesystem;
using compare::Arm;
using compare::Plan;

struct Job {
  const Arm* arm;
  std::int64_t seed;
  fs::path dir;
  pid_t process = -1;
  fs::path log() const { return dir.string() + ".txt"; }
};

/// Returns whether an arm's recipe sets the number of threads.
bool sets_threads(const Plan& plan, const Arm& arm) {
  return train::load_recipe(train::keys(), plan.base, arm.set, true, train::RecipeUse::training)
      .origins.contains("trainer.threads");
}

/// Starts the job's process in a group of its own, so that a Ctrl-C reaches it through this process alone. The kernel
/// kills it when this process ends. `num_threads`: 0 leaves the recipe's.
void start(const Plan& plan, Job& job, std::int64_t num_threads) {
  std::vector<std::string> words = {"qrl-train", fs::absolute(plan.base).lexically_normal().string()};
  const auto set = [&](const std::string& setting) { words.insert(words.end(), {"--set", setting}); };
  for (const std::string& setting : settings_of(plan, *job.arm, job.seed)) set(setting);
  set("trainer.default_local_dir=" + config::write_text(job.dir.string()));
  if (num_threads > 0) set("trainer.threads=" + std::to_string(num_threads));
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each)
    if (plan.isa.empty() || !std::string_view(*each).starts_with("QRL_ISA=")) environment.emplace_back(*each);
  if (!plan.isa.empty()) environment.push_back("QRL_ISA=" + plan.isa);
  const std::vector<char*> argv = base::pointers_of(words), envp = base::pointers_of(environment);
  const std::string log = job.log().string();
  const pid_t parent = getpid();
  job.process = fork();
  QRL_INVARIANT(job.process >= 0, "fork", "a process", std::strerror(errno));
  if (job.process > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  setpgid(0, 0);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666),
            none = open("/dev/null", O_RDONLY);
  if (file < 0 || none < 0 || dup2(none, 0) < 0 || dup2(file, 1) < 0 || dup2(file, 2) < 0) _exit(1);
  execve("/proc/self/exe", argv.data(), envp.data());
  _exit(1);
}

std::string last_lines(const fs::path& log) {
  constexpr std::size_t kMost = 1000;
  const std::string text = state::read_text(log, 1 << 30);
  if (text.size() <= kMost) return text;
  const std::size_t line = text.find('\n', text.size() - kMost);
  return text.substr(line == std::string::npos ? text.size() - kMost : line + 1);
}

class Runner {
 public:
  Runner(const Plan& plan, const RunsOptions& options, compare::ArmRuns& runs)
      : plan_(plan), options_(options), runs_(runs) {}

  /// Lets running processes write a checkpoint and end before an error leaves.
  void run() try {
    std::vector<Job> waiting = missing();
    require_instruction_set(waiting);
    std::ranges::reverse(waiting);
    while (!waiting.empty() || !running_.empty()) {
      if (train::stop_requested())
        throw base::Error(base::ErrorKind::stopped, "qrl-train compare", "", "stopped by a signal",
                          "the same command goes on");
      while (!waiting.empty() && std::ssize(running_) < options_.jobs) {
        running_.push_back(std::move(waiting.back()));
        waiting.pop_back();
        Job& job = running_.back();
        const std::int64_t share = std::max<std::int64_t>(1, base::usable_processors() / options_.jobs);
        start(plan_, job, sets_threads(plan_, *job.arm) ? 0 : share);
      }
      if (!reap()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  } catch (...) {
    stop();
    throw;
  }

 private:
  /// Returns the runs without rows, all arms of a seed together.
  std::vector<Job> missing() const {
    std::set<std::int64_t> seeds;
    for (const Arm& arm : plan_.arms) seeds.insert(arm.seeds.begin(), arm.seeds.end());
    std::vector<Job> jobs;
    std::int64_t place = 0;
    for (const std::int64_t seed : seeds) {
      if (place++ % options_.num_parts != options_.part - 1) continue;
      for (const Arm& arm : plan_.arms)
        if (std::ranges::count(arm.seeds, seed) == 1 && !runs_.contains({arm.name, seed}))
          jobs.push_back({&arm, seed, options_.out / (arm.name + "-seed" + std::to_string(seed))});
    }
    return jobs;
  }

  /// Refuses, before a run, pairs whose other half has another instruction set, and runs begun with another one.
  void require_instruction_set(const std::vector<Job>& jobs) const {
    const std::string isa = plan_.isa.empty() ? std::string(ops::name(ops::isa())) : plan_.isa;
    compare::ArmRuns all = runs_;
    for (const Job& job : jobs) {
      compare::ArmRun& run = all[{job.arm->name, job.seed}];
      run.isa = isa;
      run.program = program_name();
      for (const report::Session& session : report::read_sessions(job.dir / "sessions.jsonl"))
        QRL_REQUIRE(session.isa == isa, state::shown(job.dir), "sessions with " + isa, session.isa,
                    "set QRL_ISA=" + session.isa + ", or delete the folder");
    }
    compare::require_comparable(plan_, all);
  }

  /// Takes the result of one ended process; returns false if none has ended.
  bool reap() {
    for (auto job = running_.begin(); job != running_.end(); ++job) {
      int status = 0;
      if (waitpid(job->process, &status, WNOHANG) != job->process) continue;
      const Job ended = *job;
      running_.erase(job);
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) finish(ended);
      else if (!train::stop_requested()) fail(ended, status);
      return true;
    }
    return false;
  }

  void finish(const Job& job) {
    compare::ArmRun run = compare::read_arm_run(plan_, job.dir);
    const std::vector<report::Row> rows = report::read_rows(job.dir / "metrics.jsonl").rows;  // with names of nulls
    for (const compare::Endpoint& endpoint : plan_.endpoints) {
      const auto has = [&](const report::Row& row) { return row.metrics.contains(endpoint.metric); };
      QRL_REQUIRE(!runs_.empty() || std::ranges::any_of(rows, has) || has(run.rows.back()), "endpoint " + endpoint.name,
                  "a metric that these runs write", endpoint.metric);
    }
    runs_[{job.arm->name, job.seed}] = std::move(run);
    compare::require_comparable(plan_, runs_);
    compare::write_plan_rows(options_.out / "rows.csv.gz", plan_, runs_);
    if (!plan_.keep_models) fs::remove_all(job.dir / "checkpoints");
    options_.on_end(job.arm->name, job.seed);
  }

  [[noreturn]] void fail(const Job& job, int status) {
    base::fail_input(
        "arm " + job.arm->name + ", seed " + std::to_string(job.seed), "exit code 0",
        (WIFEXITED(status) ? std::to_string(WEXITSTATUS(status)) : "signal " + std::to_string(WTERMSIG(status))) +
            "; its last lines:\n" + last_lines(job.log()) + "\n",
        "see " + state::shown(job.log()) + (WIFSIGNALED(status) ? "; the same command goes on" : ""));
  }

  void stop() {
    for (const Job& job : running_) kill(job.process, SIGTERM);
    for (const Job& job : running_) {
      int status = 0;
      while (waitpid(job.process, &status, 0) < 0 && errno == EINTR) {
      }
    }
    running_.clear();
  }

  const Plan& plan_;
  const RunsOptions& options_;
  compare::ArmRuns& runs_;
  std::vector<Job> running_;
};

}  // namespace

void train_arms(const Plan& plan, const RunsOptions& options, compare::ArmRuns& runs) {
  Runner(plan, options, runs).run();
}

}  // namespace qrl::app
