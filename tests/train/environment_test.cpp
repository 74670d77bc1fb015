// Tests runs with an environment: equal bits for any number of sessions, ranks and pages, and after kills and stops;
// log-probs of the learner; files and metrics; what is refused.
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "base/clock.h"
#include "support/catch.h"
#include "tasks/command_support.h"
#include "train/support.h"

using namespace qrl;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// A seeded game: each turn scores the letters that it shares with a secret, and is answered by their number. It ends
/// after two or three turns. It waits while a file "slow" stands beside it.
constexpr const char* kGuessing = R"(
import json, os, random, sys, time
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "pids"), "a") as pids: print(os.getpid(), file=pids)
def say(**answer): print(json.dumps(answer), flush=True)
games = {}
for line in sys.stdin:
    (kind, body), = json.loads(line).items()
    if kind == "hello":
        say(ready={"scores": {"shared": 1, "turns": 0}, **json.loads('READY')})
        continue
    if kind == "row":
        say(id=body["id"], row={"prompt": f"{body['index']} {body['index'] % 7}", "ground_truth": "1"})
        continue
    id = body["id"]
    if kind == "start":
        rng = random.Random(body["seed"])
        games[id] = (rng, "".join(rng.choice("0123456789+-*() =") for _ in range(4)), rng.randint(2, 3), body["prompt"])
        say(id=id, observation=f"?{rng.randint(0, 9)}" if rng.random() < 0.25 else None)
        continue
    rng, secret, last, prompt = games[id]
    if kind == "end":
        say(id=id, done=True, scores={"turns": 0})
        continue
    # FAULTS
    while os.path.exists(os.path.join(here, "slow")) and body["turn"] == 2:
        open(os.path.join(here, "waiting"), "a").write(".")
        time.sleep(0.05)
    shared = sum(letter in secret for letter in body["text"][:6])
    scores = {"shared": shared / 6, "turns": 1}
    if body["turn"] == last: say(id=id, done=True, scores=scores, reason="over")
    else: say(id=id, observation=f" {shared}{rng.choice('abc')}:", scores=scores, calls=[{"name": "guess", "arguments": {}}])
)";

/// Faults of the first turn, by the prompt's first letter.
constexpr const char* kFaultsOfGame = R"(
    fault = prompt[0] if body["turn"] == 1 else ""
    if fault == "1": time.sleep(3600)
    if fault == "2": os._exit(3)
    if fault == "3": say(id=id, observation=3)
    if fault == "4": say(id=id, observation="a"); say(id=id, observation="b")
    if fault == "5": print("x" * (10 << 20), flush=True)
    if fault == "6": say(id=id, error="no such key")
    if fault == "7": say(id=id, done=True, scores={"turns": 1}); say(id=id, observation="b")
    if fault in list("34567"): continue
)";

/// Settings of a run of the tiny recipe in which conversations have up to three turns of at most seven tokens. Many
/// texts end a turn.
const std::string kTurns =
    "--set 'rollout.stop=[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"=\",\"<\",A,B,C]' --set reward.verifier=environment "
    "--set environment.style=continue --set environment.max_turns=3 --set "
    "environment.max_turn_tokens=7 --set data.max_response_length=32 --set actor.max_tokens_per_micro_batch=512 --set "
    "environment.max_observation_tokens=16 --set trainer.total_training_steps=3 ";

struct GuessingGame {
  explicit GuessingGame(const std::string& ready = "{}", const std::string& faults = "") {
    std::string program = kGuessing;
    program.replace(program.find("READY"), 5, ready);
    program.replace(program.find("    # FAULTS\n"), 13, faults);
    std::ofstream(dir / "game.py") << program;
  }
  std::string arguments(const std::string& more = "") const {
    return kTurns + "--set environment.command=[python3," + (dir / "game.py").string() + "] " + more;
  }
  test::Outcome run(const std::string& name, const std::string& more = "") const {
    return test::run_command(test::tiny_command(dir / name, arguments(more)));
  }
  test::TempDir dir;
};

void require_done(const test::Outcome& outcome) {
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

void check_equal_games(const fs::path& one, const fs::path& other) {
  CHECK(test::stable_rows(one / "metrics.jsonl") == test::stable_rows(other / "metrics.jsonl"));
  for (const char* file : {"checkpoints/step_3/model.safetensors", "checkpoints/step_3/optimizer.safetensors",
                           "rollouts/step_1.jsonl", "rollouts/step_2.jsonl", "rollouts/step_3.jsonl"}) {
    INFO(file);
    const std::string bytes = bytes_of(one / file);
    CHECK(!bytes.empty());
    CHECK(bytes == bytes_of(other / file));
  }
}

}  // namespace

TEST_CASE("environment run: the same bits with one session or many, few pages, and several ranks") {
  const GuessingGame game;
  require_done(game.run("one", "--set environment.sessions=1"));
  require_done(game.run("many", "--set environment.sessions=16 --set environment.workers=3"));
  check_equal_games(game.dir / "one", game.dir / "many");
  require_done(game.run("few", "--set environment.sessions=16 --set rollout.kv_pages=6 --set rollout.max_num_seqs=3"));
  check_equal_games(game.dir / "one", game.dir / "few");
  require_done(game.run("ranks", "--ranks 2 --set environment.sessions=1"));
  require_done(game.run("ranks_many", "--ranks 2 --set environment.workers=2"));
  check_equal_games(game.dir / "ranks", game.dir / "ranks_many");
  CHECK(bytes_of(game.dir / "one/rollouts/step_1.jsonl") == bytes_of(game.dir / "ranks/rollouts/step_1.jsonl"));
}

TEST_CASE("environment run: files and metrics have the turns, and each sampled token is learned once") {
  const GuessingGame game;
  require_done(game.run("run", "--set eval.dump=4"));
  std::ifstream in(game.dir / "run/rollouts/step_1.jsonl");
  double num_turns = 0, num_sampled = 0, num_masked = 0;
  std::size_t num_rows = 0, num_more_than_one = 0;
  for (std::string line; std::getline(in, line); ++num_rows) {
    const auto row = nlohmann::json::parse(line);
    REQUIRE(row.contains("turns"));
    std::string text;
    std::size_t sampled = 0;
    for (const auto& turn : row["turns"]) {
      sampled += turn["sampled_tokens"].get<std::size_t>();
      text += turn["drawn"].get<std::string>() +
              (turn["observation"].is_null() ? "" : turn["observation"].get<std::string>());
    }
    CHECK(row["response"] == text);
    CHECK(row["turns"].back()["observation"].is_null());
    num_turns += static_cast<double>(row["turns"].size());
    num_sampled += static_cast<double>(sampled);
    num_masked += row["response_tokens"].get<double>() - static_cast<double>(sampled);
    num_more_than_one += row["turns"].size() > 1 ? 1 : 0;
    CHECK((row["end"] == "done" || row["end"] == "length" || row["end"] == "max_turns"));
  }
  REQUIRE(num_rows == 16);
  CHECK(num_more_than_one > 0);
  const auto row = test::stable_rows(game.dir / "run/metrics.jsonl").at(1);
  CHECK(row["env/turns"] == num_turns / 16);
  CHECK(row["env/observation_tokens"] == num_masked / 16);
  CHECK(row["response_length/mean"] == num_sampled / 16);
  CHECK(row["env/error_fraction"] == 0);
  CHECK(row["env/call_errors"] == 0);
  for (const char* name : {"reward/shared/mean", "reward/turns/mean", "env/calls", "env/done_fraction"})
    CHECK(row.contains(name));
  CHECK(nlohmann::json::parse(bytes_of(game.dir / "run/validation/step_2.jsonl")
                                  .substr(0, bytes_of(game.dir / "run/validation/step_2.jsonl").find('\n')))
            .contains("turns"));
}

TEST_CASE("environment run: the learner's log-probs of all turns are the sampler's, bit for bit") {
  const GuessingGame game;
  require_done(
      game.run("run",
               "--set rollout.bitwise=true --set quant.learner.forward=low_bit --set actor.mini_batch_size=4 --set "
               "environment.sessions=16 --set rollout.kv_pages=6 --set rollout.max_num_seqs=3"));
  for (const nlohmann::json& row : test::stable_rows(game.dir / "run/metrics.jsonl")) {
    if (!row.contains("mismatch/k3_kl")) continue;
    CHECK(row["mismatch/k3_kl"] == 0);
    CHECK(row["env/turns"] > 1);
  }
}

TEST_CASE(
    "environment run: each fault is an error of its conversations, the others keep their bits, and none is left") {
  const std::string settings =
      "--set trainer.total_training_steps=1 --set data.train_batch_size=24 --set actor.mini_batch_size=24 --set "
      "environment.sessions=1 --set environment.workers=4 --set environment.timeout_s=2 --set "
      "reward.max_error_fraction=1 --set eval.freq=0 ";
  const GuessingGame sound, hostile("{}", kFaultsOfGame);
  require_done(sound.run("run", settings));
  require_done(hostile.run("run", settings));
  CHECK(test::are_gone(hostile.dir / "pids"));
  std::ifstream sound_rows(sound.dir / "run/rollouts/step_1.jsonl"), rows(hostile.dir / "run/rollouts/step_1.jsonl");
  std::map<std::string, int> ends;
  for (std::string line, sound_line; std::getline(rows, line) && std::getline(sound_rows, sound_line);) {
    const auto row = nlohmann::json::parse(line), sound_row = nlohmann::json::parse(sound_line);
    const std::string prompt = row["prompt"], end = row["end"];
    INFO(line);
    REQUIRE(row["prompt"] == sound_row["prompt"]);
    const std::map<char, std::string> expected = {{'1', "timeout"},  {'2', "crashed"},  {'3', "protocol"},
                                                  {'4', "protocol"}, {'5', "protocol"}, {'6', "error"}};
    const auto found = expected.find(prompt[0]);
    if (found != expected.end()) CHECK(end == found->second);
    else if (prompt[0] == '7') CHECK((end == "protocol" || end == "done"));  // the run may have read no further
    else CHECK(row["turns"] == sound_row["turns"]);
    CHECK(row.contains("dropped") == (end != "done" && end != "length" && end != "max_turns"));
    ++ends[end];
  }
  for (const char* end : {"timeout", "crashed", "protocol", "error", "done"}) CHECK(ends[end] > 0);
}

TEST_CASE("environment run: killed in any state, it leaves no program and resumes with the same bits") {
  const GuessingGame game;
  require_done(game.run("whole"));
  std::mt19937 random(7);
  const int num_kills = std::getenv("QRL_LONG_TESTS") != nullptr ? 20 : 3;
  for (int kill_no = 0; kill_no < num_kills; ++kill_no) {
    if (fs::exists(game.dir / "killed/checkpoints/step_3")) fs::remove_all(game.dir / "killed");
    for (const char* file : {"pids", "waiting", "slow"}) fs::remove(game.dir / file);
    // The states: conversations wait for the environment; a program starts; a step is over.
    const char* const signs[] = {"waiting", "pids", "killed/metrics.jsonl"};
    if (kill_no % 3 == 0) std::ofstream(game.dir / "slow");
    const pid_t pid = test::start_command(test::tiny_command(game.dir / "killed", game.arguments()), game.dir / "log");
    REQUIRE(test::wait_for_file(game.dir / signs[kill_no % 3], pid));
    usleep(static_cast<useconds_t>(random() % 200'000));
    kill(-pid, SIGKILL);
    (void)test::wait_for(pid);
    CHECK(test::are_gone(game.dir / "pids"));
  }
  fs::remove(game.dir / "slow");
  require_done(game.run("killed"));
  check_equal_games(game.dir / "whole", game.dir / "killed");
}

TEST_CASE(
    "environment run: SIGTERM while conversations wait ends it with 75, leaves no program, and the step is sampled "
    "again") {
  const GuessingGame game;
  require_done(game.run("whole"));
  std::ofstream(game.dir / "slow");
  const pid_t pid = test::start_command(test::tiny_command(game.dir / "stopped", game.arguments()), game.dir / "log");
  REQUIRE(test::wait_for_file(game.dir / "waiting", pid));
  const double stop_s = base::now_s();
  kill(pid, SIGTERM);
  CHECK(test::wait_for(pid) == 75);
  CHECK(base::now_s() - stop_s < 10);  // the conversations would wait until they time out
  CHECK(test::are_gone(game.dir / "pids"));
  fs::remove(game.dir / "slow");
  require_done(game.run("stopped"));
  check_equal_games(game.dir / "whole", game.dir / "stopped");
}

TEST_CASE("environment run: rows of the environment are sampled by epochs, filtered and held out as those of files") {
  const GuessingGame game(R"({"rows": {"train": 10, "val": 3}})");
  const std::string none = "--set data.train_generator.task=null --set data.val_generator.task=null ";
  require_done(game.run("run", none));
  const std::string rows = bytes_of(game.dir / "run/rollouts/step_1.jsonl");
  CHECK_THAT(rows, Contains("\"data_source\":\"environment\""));
  const auto row = test::stable_rows(game.dir / "run/metrics.jsonl").at(0);
  CHECK(row.contains("val/environment/score/mean@2"));
  CHECK(test::says(game.run("both"), "an environment that owns its rows"));
}

TEST_CASE("environment run: what cannot be is refused with one error, before a model is read") {
  const GuessingGame game;
  const auto refusal = [&](const std::string& settings) {
    const test::Outcome outcome = game.run("refused", settings);
    CHECK(outcome.exit_code == 2);
    return outcome;
  };
  CHECK(test::says(refusal("--set environment.style=chat"), "environment.style"));
  CHECK(test::says(refusal("--set environment.style=chat --set data.chat_template=chatml --set rollout.stop=[x]"),
                   "rollout.stop"));
  CHECK(test::says(refusal("--set reward.verifier=countdown"), "reward.verifier: environment"));
  CHECK(test::says(refusal("--set environment.command=[no-such-program]"), "environment.command"));
  CHECK(test::says(refusal("--set environment.command=[]"), "environment.command"));
  const GuessingGame tools(R"({"tools": [{"type": "function", "function": {"name": "f"}}]})");
  CHECK(test::says(tools.run("refused"), "style chat and role tool"));
}

TEST_CASE("check env: a conversation is played with the answers of a file, and marks what is learned") {
  const GuessingGame game;
  std::ofstream(game.dir / "answers.jsonl") << "\"7*8\"\n{\"response\": \"9\"}\n\"7\"\n";
  const std::string command = test::kProgram + "check env " + test::kTiny + " " + game.arguments() + "--answers ";
  const test::Outcome outcome = test::run_command(command + (game.dir / "answers.jsonl").string());
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.output, Contains("«7*8<|endoftext|>»") && Contains("end done") && Contains("turn 2"));
  std::ofstream(game.dir / "few.jsonl") << "\"1\"\n";
  CHECK(test::says(test::run_command(command + (game.dir / "few.jsonl").string()), "an answer for turn 2"));
  CHECK(test::run_command(command + (game.dir / "answers.jsonl").string() + " --row 65").exit_code == 2);
}
