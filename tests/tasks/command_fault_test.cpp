// A command that misbehaves: each fault and its end, and that no process is left.
#include <sys/wait.h>
#include <unistd.h>

#include <iterator>

#include "base/clock.h"
#include "tasks/command_support.h"

using namespace qrl;
using test::CommandRecipe;

namespace {

/// Judges "ok" with 1; at "bad" it does what its first argument says. Writes the numbers of its processes to a file.
constexpr const char* kFaults = R"(
import json, os, signal, subprocess, sys, time
mode = sys.argv[1]
with open("pids", "a") as pids: print(os.getpid(), file=pids)
def out(text): sys.stdout.write(text + "\n"); sys.stdout.flush()
def say(message): out(json.dumps(message))
sys.stdin.readline()
if mode == "exits": print("no compiler here", file=sys.stderr); sys.exit(7)
if mode == "silent": print("still importing", file=sys.stderr, flush=True); time.sleep(60)
if mode == "chatty": out("hello"); time.sleep(60)
say({"ready": {"protocol": 2 if mode == "protocol 2" else 1, "scores": {"s": 1}}})
for line in sys.stdin:
    row = json.loads(line)
    answer = {"id": row["id"], "score": 1}
    if row["response"] == "bad":
        if mode == "sleeps": time.sleep(60)
        if mode == "late": time.sleep(1.5)
        if mode == "segfault": os.kill(os.getpid(), signal.SIGSEGV)
        if mode == "once" and not os.path.exists("died"): open("died", "w"); os._exit(1)
        if mode == "memory": bytearray(1 << 30)
        if mode == "closes": os.close(1); time.sleep(60)
        if mode == "garbage": out("Traceback (most recent call last):"); continue
        if mode == "long": sys.stdout.write("x" * ((64 << 20) + 1)); out(""); continue
        if mode == "unknown": answer["id"] += 1000
        if mode == "nan": answer["score"] = float("nan")
        if mode == "infinite": out('{"id": %d, "score": 1e999}' % row["id"]); continue
        if mode == "name": answer = {"id": row["id"], "scores": {"other": 1}}
        if mode == "text": answer["score"] = "1"
        if mode == "error": answer = {"id": row["id"], "error": "compiler missing"}
        if mode == "null": answer["score"] = None
        if mode == "twice": say(answer)
        if mode == "child":
            child = subprocess.Popen(["sleep", "60"])
            with open("pids", "a") as pids: print(child.pid, file=pids)
    say(answer)
if mode == "ignores": time.sleep(60)
)";

struct Seen {
  std::vector<tasks::Verdict> verdicts;
  double seconds = 0;
};

/// What three responses get of which the second is bad; checks that no process is left 2 s after the end.
Seen judge_with(const std::string& mode, void (*change)(config::RewardRecipe&) = nullptr) {
  CommandRecipe command(kFaults, {mode});
  command.recipe.reward.timeout_s = 0.5;
  if (change != nullptr) change(command.recipe.reward);
  Seen seen;
  const double begin_s = base::now_s();
  {
    const auto verifier = command.make();
    seen.verdicts = test::judge_all(*verifier, {"ok", "bad", "ok", "ok"});
  }
  seen.seconds = base::now_s() - begin_s;
  CHECK(test::are_gone(command.file("pids"), 1));
  return seen;
}

}  // namespace

TEST_CASE("a fault of a command is an error of its row, and the rest is judged by a fresh worker") {
  const auto check = [](const std::string& mode, const std::string& reason,
                        void (*change)(config::RewardRecipe&) = nullptr) {
    CAPTURE(mode);
    const Seen seen = judge_with(mode, change);
    REQUIRE(seen.verdicts.size() == 4);
    const std::size_t bad = mode == "twice" ? 2 : 1;
    for (std::size_t i = 0; i < 4; ++i) {
      CAPTURE(i);
      CHECK(seen.verdicts[i].verifier_error == (i == bad));
      CHECK(seen.verdicts[i].dropped == (i == bad));
      if (i != bad) CHECK(seen.verdicts[i].scores == std::vector<double>{1});
    }
    CHECK(seen.verdicts[bad].reason == reason);
    CHECK(seen.seconds < 8);
  };
  check("sleeps", "timeout");
  check("late", "timeout");
  check("segfault", "crashed");
  check("closes", "crashed");
  check("memory", "crashed", [](config::RewardRecipe& reward) { reward.memory_mb = 400; });
  for (const char* mode : {"garbage", "long", "unknown", "twice", "nan", "infinite", "name", "text"})
    check(mode, "protocol", [](config::RewardRecipe& reward) { reward.timeout_s = 20; });
  check("error", "error");
  check("null", "error");
}

TEST_CASE("a row whose worker died once is judged by the next one") {
  const Seen seen = judge_with("once");
  for (const tasks::Verdict& verdict : seen.verdicts) CHECK(verdict.outcome == tasks::Outcome::correct);
}

TEST_CASE("a command that ignores the end of its input, or leaves a child, is killed with its group within 2 s") {
  for (const char* mode : {"ignores", "child"}) {
    CAPTURE(mode);
    const Seen seen = judge_with(mode);
    CHECK(seen.verdicts[1].outcome == tasks::Outcome::correct);
    CHECK(seen.seconds < 6);
  }
}

TEST_CASE("rows in flight beside one that kills its worker are judged, whatever they are") {
  const auto change = [](config::RewardRecipe& reward) {
    reward.in_flight = 8;
    reward.timeout_s = 10;
  };
  for (const char* mode : {"segfault", "error"}) {
    const Seen seen = judge_with(mode, change);
    for (const std::size_t i : {0, 2, 3}) CHECK(seen.verdicts[i].outcome == tasks::Outcome::correct);
    CHECK(seen.verdicts[1].verifier_error);
  }
}

TEST_CASE("on_error wrong scores a failed response 0, and keeps it") {
  const Seen seen = judge_with("segfault", [](config::RewardRecipe& reward) {
    reward.on_error = config::OnVerifierError::wrong;
    reward.timeout_s = 10;
  });
  CHECK(seen.verdicts[1].verifier_error);
  CHECK_FALSE(seen.verdicts[1].dropped);
  CHECK(seen.verdicts[1].scores == std::vector<double>{0});
}

TEST_CASE("a command that does not become ready ends the run with exit code 2 and its last words") {
  const auto refusal = [](const std::string& mode) {
    CommandRecipe command(kFaults, {mode});
    command.recipe.reward.start_timeout_s = 1;
    const auto [text, code] = test::error_of([&] { test::judge_all(*command.make(), {"ok"}); });
    CHECK(code == 2);
    CHECK(test::are_gone(command.file("pids"), 1));
    return text;
  };
  using Catch::Contains;
  CHECK_THAT(refusal("exits"),
             Contains("reward.command") && Contains("ended with exit code 7") && Contains("no compiler here"));
  CHECK_THAT(refusal("silent"), Contains("reward.start_timeout_s = 1") && Contains("still importing"));
  CHECK_THAT(refusal("chatty"), Contains("got \"hello\""));
  CHECK_THAT(refusal("protocol 2"), Contains("protocol 2, and this program speaks 1"));
}

TEST_CASE("errors end the judging as soon as they are too many, and at once when the first 16 are errors alone") {
  const auto judge = [](const std::string& mode, std::vector<std::string> responses, std::int64_t max_errors) {
    CommandRecipe command(kFaults, {mode});
    command.recipe.reward.timeout_s = 0.2;
    const auto verifier = command.make();
    const double begin_s = base::now_s();
    const auto [text, code] =
        test::error_of([&] { test::judge_all(*verifier, responses, {.max_errors = max_errors}); });
    CHECK(code == 3);
    CHECK(base::now_s() - begin_s < 6);
    return text;
  };
  using Catch::Contains;
  std::vector<std::string> many(400, "bad");
  CHECK_THAT(judge("error", many, 1000),
             Contains("one of the first 16 responses") && Contains("16 error") && Contains("compiler missing"));
  many.insert(many.begin(), 20, "ok");
  CHECK_THAT(judge("sleeps", many, 2), Contains("reward.max_error_fraction") && Contains("3 timeout"));
  CommandRecipe command(kFaults, {"error"});
  CHECK(test::judge_all(*command.make(), std::vector<std::string>(20, "bad")).size() == 20);  // nobody said stop
}

TEST_CASE("what interrupts judging ends it at once, and the next batch is judged") {
  CommandRecipe command(kFaults, {"sleeps"});
  command.recipe.reward.timeout_s = 60;
  const auto verifier = command.make();
  struct Interrupted {};
  const double begin_s = base::now_s();
  CHECK_THROWS_AS(test::judge_all(*verifier, {"ok", "bad"},
                                  {.pause =
                                       [&] {
                                         if (base::now_s() - begin_s > 0.5) throw Interrupted{};
                                       }}),
                  Interrupted);
  CHECK(base::now_s() - begin_s < 3);
  CHECK(test::judge_all(*verifier, {"ok"}).front().outcome == tasks::Outcome::correct);
}

TEST_CASE("processes of a command are gone 2 s after the program that started them was killed") {
  CommandRecipe command(kFaults, {"child"});
  const pid_t program = fork();
  if (program == 0) {
    const auto verifier = command.make();
    (void)test::judge_all(*verifier, {"bad"});
    for (;;) pause();
  }
  std::size_t num_pids = 0;
  for (int i = 0; i < 500 && num_pids < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::ifstream in(command.file("pids"));
    num_pids = static_cast<std::size_t>(std::distance(std::istream_iterator<int>(in), {}));
  }
  REQUIRE(num_pids == 2);
  ::kill(program, SIGKILL);
  waitpid(program, nullptr, 0);
  CHECK(test::are_gone(command.file("pids"), 2));
}
