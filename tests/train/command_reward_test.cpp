// Tests runs whose rewards come from a program: the same bits as with the built-in verifier, stops and kills during
// judging, errors.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "support/catch.h"
#include "tasks/command_support.h"
#include "train/support.h"

using namespace qrl;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// Settings with which some responses of the tiny model are right, some are wrong and most have the form.
const std::string kTelling =
    "--set sft.steps=120 --set sft.save_freq=120 --set sft.batch_size=16 --set data.max_response_length=96 --set "
    "trainer.total_training_steps=3 ";
const std::string kCopy =
    "--set reward.verifier=command --set reward.workers=2 --set reward.command=[python3," QRL_SOURCE_DIR
    "/recipes/rewards/countdown.py] --set 'reward.weights={correct: 1, format: 0.25}' ";

/// Defines a copy of the countdown verifier that writes its process id to a file, and judges no row while a file "slow"
/// exists next to it.
constexpr const char* kSlow = R"(
import os, sys, time
sys.path.insert(0, QRL_REWARDS)
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "pids"), "a") as pids: print(os.getpid(), file=pids)
import qrl_reward
serve = qrl_reward.serve
def slowed(function, scores):
    def judge(row):
        while row["step"] == 2 and os.path.exists(os.path.join(here, "slow")):
            open(os.path.join(here, "judging"), "a").write(".")
            time.sleep(0.05)
        return function(row)
    serve(judge, scores)
qrl_reward.serve = slowed
import runpy
runpy.run_path(os.path.join(sys.path[0], "countdown.py"), run_name="__main__")
)";

/// A copy of countdown in its own session, below a parent that waits for it, or with a daemon for each row. It writes
/// the ids of all its processes to the file in PIDS.
constexpr const char* kSpreading = R"(
import os, sys, time
sys.path.insert(0, QRL_REWARDS)
def note(): os.write(os.open(os.environ["QRL_TEST_PIDS"], os.O_CREAT | os.O_WRONLY | os.O_APPEND), b"%d\n" % os.getpid())
note()
if sys.argv[1] == "session":
    child = os.fork()
    if child > 0: sys.exit(os.waitpid(child, 0)[1])
    os.setsid()
    note()
import qrl_reward
serve = qrl_reward.serve
def spreading(function, scores):
    def judge(row):
        if sys.argv[1] == "daemons" and os.fork() == 0:
            os.setsid()
            if os.fork() > 0: os._exit(0)
            note()
            os.closerange(0, 64)
            time.sleep(3600)
        return function(row)
    serve(judge, scores)
qrl_reward.serve = spreading
import runpy
runpy.run_path(os.path.join(sys.path[0], "countdown.py"), run_name="__main__")
)";

struct SlowReward {
  SlowReward() {
    std::string program = kSlow;
    program.replace(program.find("QRL_REWARDS"), 11, "\"" QRL_SOURCE_DIR "/recipes/rewards\"");
    std::ofstream(dir / "judge.py") << program;
  }
  std::string arguments() const {
    return "--set reward.verifier=command --set reward.workers=2 --set reward.command=[python3," +
           (dir / "judge.py").string() + "] --set reward.timeout_s=3600 ";
  }
  test::TempDir dir;
};

/// Returns metric rows without the names that only one of the two verifiers has.
std::vector<nlohmann::json> common_rows(const fs::path& run) {
  std::vector<nlohmann::json> rows = test::stable_rows(run / "metrics.jsonl");
  for (nlohmann::json& row : rows) {
    for (auto item = row.begin(); item != row.end();) {
      const std::string& name = item.key();
      const bool is_outcome = name == "reward/correct_fraction" || name == "reward/wrong_fraction" ||
                              name == "reward/no_answer_fraction" || name == "reward/verifier_error_fraction";
      const bool is_part = name.find("/score/") != name.npos && name.find("/score/mean@") == name.npos;
      const bool is_own = (name.starts_with("reward/") && !is_outcome) || name.ends_with("/error_fraction") ||
                          name.ends_with("/outcome_fraction") || is_part;
      item = is_own ? row.erase(item) : std::next(item);
    }
  }
  return rows;
}

void check_same_bits(const fs::path& built_in, const fs::path& command) {
  CHECK(common_rows(built_in) == common_rows(command));
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    INFO(name);
    const fs::path file = fs::path("checkpoints/step_3") / name;
    const bool same = test::read_file(built_in / file) == test::read_file(command / file);
    CHECK(same);
  }
}

void run_judged(const fs::path& folder, const std::string& arguments, const std::string& launcher = "") {
  const test::Outcome outcome = test::run_command(test::tiny_command(folder, arguments, launcher));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
}

}  // namespace

TEST_CASE("program as judge: countdown has the built-in verifier's bits, on one rank and two") {
  const test::TempDir dir;
  const int num_seeds = std::getenv("QRL_LONG_TESTS") != nullptr ? 3 : 1;
  for (int seed = 0; seed < num_seeds; ++seed) {
    const std::string number = std::to_string(seed), settings = kTelling + "--set trainer.seed=" + number + " ";
    const fs::path rule = dir / ("rule" + number), command = dir / ("command" + number);
    run_judged(rule, settings + "--set reward.format=0.25");
    const std::string same_start = settings + "--set sft.from=" + (rule / "checkpoints/sft_120").string() + " ";
    run_judged(command, same_start + kCopy);
    check_same_bits(rule, command);
    double spread = 0;
    for (const auto& row : test::stable_rows(command / "metrics.jsonl")) {
      if (!row.contains("critic/score/std")) continue;
      spread += row.at("critic/score/std").get<double>();
      CHECK(row.at("reward/correct/mean") == row.at("reward/correct_fraction"));
      CHECK(row.at("reward/format/mean") == row.at("reward/wrong_fraction"));
      CHECK(row.at("reward/timeout_fraction") == 0);
    }
    CHECK(spread > 0);
    const std::string launcher = test::mpirun(2);
    if (launcher.empty() || seed != 0) continue;
    run_judged(dir / "rule_on_two", same_start + "--set reward.format=0.25", launcher);
    run_judged(dir / "command_on_two", same_start + kCopy, launcher);
    check_same_bits(dir / "rule_on_two", dir / "command_on_two");
  }
}

TEST_CASE("SIGTERM while a program judges: exit 75 before it has judged, equal bits after resuming") {
  const SlowReward reward;
  run_judged(reward.dir / "whole", reward.arguments());
  std::ofstream(reward.dir / "slow") << "";
  const pid_t pid = test::start_command(test::tiny_command(reward.dir / "run", reward.arguments()), reward.dir / "log");
  REQUIRE(test::wait_for_file(reward.dir / "judging", pid));
  kill(pid, SIGTERM);
  const int exit_code = test::wait_for(pid);
  INFO(test::read_file(reward.dir / "log"));
  CHECK(exit_code == 75);
  CHECK(test::are_gone(reward.dir / "pids"));
  fs::remove(reward.dir / "slow");
  run_judged(reward.dir / "run", reward.arguments());
  CHECK(test::difference(reward.dir / "whole", reward.dir / "run") == "");
}

TEST_CASE("kill -9 while a program judges: its processes end, equal bits after resuming") {
  const SlowReward reward;
  run_judged(reward.dir / "whole", reward.arguments());
  std::ofstream(reward.dir / "slow") << "";
  const pid_t pid = test::start_command(test::tiny_command(reward.dir / "run", reward.arguments()), reward.dir / "log");
  REQUIRE(test::wait_for_file(reward.dir / "judging", pid));
  kill(pid, SIGKILL);
  CHECK(test::wait_for(pid) == 128 + SIGKILL);
  CHECK(test::are_gone(reward.dir / "pids"));
  fs::remove(reward.dir / "slow");
  run_judged(reward.dir / "run", reward.arguments());
  CHECK(test::difference(reward.dir / "whole", reward.dir / "run") == "");
}

TEST_CASE("responses without a verdict: left out, and too many end the run with exit code 3") {
  const test::TempDir dir;
  std::ofstream(dir / "judge.py") << R"(
from qrl_reward import serve
def judge(row):
    print("judging", row["id"])
    if len(row["response"]) % 3 == 0: raise ValueError("no thirds")
    return {"s": len(row["response"]) % 2, "log": None}
serve(judge, scores={"s": 1, "log": 0})
)";
  const std::string arguments = "--set reward.verifier=command --set reward.command=[python3," +
                                (dir / "judge.py").string() + "] --set trainer.total_training_steps=2 ";
  run_judged(dir / "run", arguments + "--set reward.max_error_fraction=1 --set reward.aggregation=normalize_then_sum");
  const auto row = test::stable_rows(dir / "run/metrics.jsonl").back();
  const double errors = row.at("reward/error_fraction");
  CHECK((errors > 0 && errors < 1));
  CHECK(row.at("reward/verifier_error_fraction") == errors);
  CHECK(row.at("critic/score/max") == 1);
  CHECK(row.at("val/countdown/error_fraction") > 0);
  CHECK(row.at("reward/log/mean").is_null());
  CHECK_THAT(test::read_file(dir / "run/reward.log"), Contains("judging 1\n") && Contains("no thirds"));
  std::ifstream rollouts(dir / "run/rollouts/step_2.jsonl");
  std::size_t num_dropped = 0;
  for (std::string line; std::getline(rollouts, line);) {
    const auto sample = nlohmann::json::parse(line);
    if (!sample.contains("dropped")) continue;
    ++num_dropped;
    CHECK_THAT(sample.at("reason").get<std::string>(),
               Catch::StartsWith("ValueError: no thirds at judge.py:5; columns of the row: "));
    CHECK(sample.at("advantage") == 0);
  }
  CHECK(static_cast<double>(num_dropped) / 16 == errors);
  const test::Outcome ended = test::run_command(
      test::tiny_command(dir / "ended", arguments + "--set reward.max_error_fraction=0.01 --set eval.freq=0"));
  INFO(ended.output);
  CHECK(ended.exit_code == 3);
  CHECK_THAT(ended.output, Contains("reward.max_error_fraction") && Contains("no thirds"));
}

TEST_CASE("judge --recipe, check reward: query a recipe's program") {
  const test::TempDir dir;
  std::ofstream(dir / "judge.py") << R"(
import os, sys
from qrl_reward import serve
count = [0]
def judge(row):
    count[0] += 1
    changing = sys.argv[1] == "changing" and count[0] or 0
    return {"right": row["response"] == row["ground_truth"], "length": len(row["response"]) + changing}
serve(judge, scores={"right": 1, "length": 0.5})
)";
  const auto recipe = [&](const std::string& how) {
    const fs::path file = dir / (how + ".yaml");
    std::ofstream(file) << "include: " QRL_SOURCE_DIR "/tests/train/tiny.yaml\n"
                        << "reward: {verifier: command, command: [python3, judge.py, " << how << "]}\n";
    return file.string();
  };
  std::ofstream(dir / "rows.jsonl") << R"({"response": "7", "ground_truth": "7", "prompt": "seven?"})"
                                       "\n"
                                    << R"({"response": "12", "ground_truth": "7"})"
                                       "\n";
  const std::string rows = (dir / "rows.jsonl").string();
  const test::Outcome judged = test::run_command(test::kProgram + "judge --recipe " + recipe("steady") + " < " + rows);
  CHECK(judged.output ==
        R"({"score":1.5,"outcome":"correct","reason":"correct","extracted":"","scores":{"right":1.0,"length":1.0}})"
        "\n"
        R"({"score":1.0,"outcome":"wrong","reason":"wrong","extracted":"","scores":{"right":0.0,"length":2.0}})"
        "\n");
  const test::Outcome steady = test::run_command(test::kProgram + "check reward " + recipe("steady"));
  INFO(steady.output);
  CHECK(steady.exit_code == 0);
  CHECK_THAT(steady.output, Contains("right (weight 1), length (weight 0.5)") &&
                                Contains("ground truth       64       64") && Contains("rows/s") &&
                                Contains("ms (p99)"));
  const test::Outcome built_in = test::run_command(test::kProgram + "check reward " + test::kTiny +
                                                   " --set reward.wrong=-1 --set reward.format=0.1");
  CHECK(test::says(built_in,
                   ": reward.verifier countdown; a correct response scores 1, any other -1, plus 0.1 if its answer has "
                   "the right format\n"));
  const test::Outcome changing =
      test::run_command(test::kProgram + "check reward " + recipe("changing") + " --file " + rows);
  INFO(changing.output);
  CHECK(changing.exit_code == 2);
  CHECK_THAT(changing.output, Contains("2 of 2 rows with different scores") &&
                                  Contains("rows.jsonl:1, response: right 1, length 2; then"));
  CHECK(test::run_command(test::kProgram + "judge --recipe " + recipe("steady") + " --verifier math < " + rows)
            .exit_code == 2);
  CHECK(test::run_command(test::kProgram + "judge < " + rows).exit_code == 2);
  const test::Outcome rule = test::run_command(test::kProgram +
                                               "judge --recipe " QRL_SOURCE_DIR
                                               "/tests/train/tiny.yaml --set "
                                               "reward.verifier=math < " +
                                               rows);
  CHECK_THAT(rule.output, Contains(R"("scores":{"correct":1.0,"wrong":0.0,"format":0.0,"partial":0.0})"));
}

TEST_CASE("program as judge: a failed start ends the run with exit code 2 and the program's last words") {
  const test::TempDir dir;
  const test::Outcome outcome = test::run_command(test::tiny_command(
      dir / "run", "--set reward.verifier=command --set 'reward.command=[python3, -m, qrl_reward, \"verl:none.py\"]'"));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.output, Contains("reward.command") && Contains("expected a Python file, got 'none.py'"));
  CHECK_THAT(outcome.output, !Contains("for data of another task"));  // the text of a rule's error
}

TEST_CASE("random kills: none of the program's sessions and daemons remain, and equal bits after resuming") {
  std::mt19937 random(20261126);
  const int num_kills = std::getenv("QRL_LONG_TESTS") != nullptr ? 20 : 2;
  for (const std::string kind : {"session", "daemons"}) {
    const test::TempDir dir;
    std::string program = kSpreading;
    program.replace(program.find("QRL_REWARDS"), 11, "\"" QRL_SOURCE_DIR "/recipes/rewards\"");
    std::ofstream(dir / "judge.py") << program;
    const auto launcher = [&](const std::string& pids) { return "env QRL_TEST_PIDS=" + (dir / pids).string(); };
    const std::string arguments =
        "--set reward.verifier=command --set reward.workers=2 --set reward.command=[python3," +
        (dir / "judge.py").string() + "," + kind + "] --set reward.timeout_s=3600 ";
    run_judged(dir / "whole", arguments, launcher("whole_pids"));
    CHECK(test::are_gone(dir / "whole_pids"));
    for (int killed = 0; killed < num_kills;) {
      fs::remove_all(dir / "run");
      while (killed < num_kills) {
        const std::string pids = "pids_" + std::to_string(killed);
        const pid_t pid = test::start_command(test::tiny_command(dir / "run", arguments, launcher(pids)), dir / "log");
        usleep(300'000 + random() % 1'500'000);
        kill(-pid, SIGKILL);
        if (test::wait_for(pid) == 0) break;  // it had already finished
        ++killed;
        CHECK(test::are_gone(dir / pids));
      }
      run_judged(dir / "run", arguments, launcher("last_pids"));
      CHECK(test::are_gone(dir / "last_pids"));
      CHECK(test::difference(dir / "whole", dir / "run") == "");
    }
  }
}
