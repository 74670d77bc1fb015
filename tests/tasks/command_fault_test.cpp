// Tests commands that misbehave: each fault and its result, and that no process is left.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/clock.h"
#include "support/files.h"
#include "tasks/command_support.h"

using namespace qrl;
using test::PythonCommand;

namespace {

/// Judges "ok" with 1; for "bad" it does what its first argument says. Writes its process ids to a file.
constexpr const char* kFaults = R"(
import json, os, signal, subprocess, sys, time
mode = sys.argv[1]
with open("pids", "a") as pids: print(os.getpid(), file=pids)
def out(text): sys.stdout.write(text + "\n"); sys.stdout.flush()
def say(message): out(json.dumps(message))
sys.stdin.readline()
if mode == "exits": print("no compiler here", file=sys.stderr); sys.exit(7)
if mode == "silent": print("still importing", file=sys.stderr, flush=True); time.sleep(3600)
if mode == "chatty": out("hello"); time.sleep(3600)
if mode == "deep ready": out('{"ready": {"scores": ["s"], "x": ' + "[" * 20000 + "]" * 20000 + "}}"); time.sleep(3600)
if mode == "long ready": out('{"ready": {"scores": ["s"], "x": "' + "a" * (80 << 20) + '"}}'); time.sleep(3600)
if mode == "endless ready": out("a" * (66 << 20)); time.sleep(3600)
ready = json.dumps({"ready": {"protocol": 2 if mode == "protocol 2" else 1, "scores": {"s": 1}}})
out(ready + "\nloading" if mode == "chatty ready" else ready)
for line in sys.stdin:
    row = json.loads(line)
    answer = {"id": row["id"], "score": 1}
    if row["response"] == "bad":
        if mode == "sleeps": time.sleep(3600)
        if mode == "late": time.sleep(4)
        if mode == "segfault": os.kill(os.getpid(), signal.SIGSEGV)
        if mode == "once" and not os.path.exists("died"): open("died", "w"); os._exit(1)
        if mode == "memory": bytearray(1 << 30)
        if mode == "closes": os.close(1); time.sleep(3600)
        if mode == "garbage": out("Traceback (most recent call last):"); continue
        if mode == "long": sys.stdout.write("x" * ((64 << 20) + 1)); out(""); continue
        if mode == "unknown": answer["id"] += 1000
        if mode == "nan": answer["score"] = float("nan")
        if mode == "deep": out('{"id": %d, "score": 1, "x": ' % row["id"] + "[" * 1000000 + "]" * 1000000 + "}"); continue
        if mode == "deep id": out('{"id": ' + "[" * 1000000 + "]" * 1000000 + ', "score": 1}'); continue
        if mode == "deep score": out('{"id": %d, "score": ' % row["id"] + "[" * 1000000 + "]" * 1000000 + "}"); continue
        if mode == "key twice": out('{"id": %d, "score": 0, "score": 1}' % row["id"]); continue
        if mode == "no integer": answer["id"] = float(row["id"])
        if mode == "huge": answer["score"] = 1e308
        if mode == "infinite": out('{"id": %d, "score": 1e999}' % row["id"]); continue
        if mode == "name": answer = {"id": row["id"], "scores": {"other": 1}}
        if mode == "text": answer["score"] = "1"
        if mode == "error": answer = {"id": row["id"], "error": "compiler missing"}
        if mode == "null": answer["score"] = None
        if mode == "twice": say(answer)
        if mode in ("child", "session"):
            child = subprocess.Popen(["sleep", "3600"], start_new_session=mode == "session")
            with open("pids", "a") as pids: print(child.pid, file=pids)
        if mode == "daemon" and os.fork() == 0:
            os.setsid()
            if os.fork() > 0: os._exit(0)
            with open("pids", "a") as pids: print(os.getpid(), file=pids)
            for stream in (0, 1, 2): os.close(stream)
            time.sleep(3600)
        if mode == "moves": os.setpgid(0, os.getpgid(os.getppid())); time.sleep(3600)
        if mode == "joins":
            child = subprocess.Popen(["sleep", "3600"], process_group=0) if sys.version_info >= (3, 11) else \
                subprocess.Popen(["sleep", "3600"], preexec_fn=os.setpgrp)
            with open("pids", "a") as pids: print(child.pid, file=pids)
            os.setpgid(0, child.pid); time.sleep(3600)
        if mode == "stops": os.kill(os.getppid(), signal.SIGSTOP); time.sleep(3600)
    say(answer)
if mode == "ignores": time.sleep(3600)
)";

/// Seconds in which a worker answers on any machine, and seconds that a case waits for a worker that does not answer.
constexpr double kAnswers_s = 100, kDoesNot_s = 2;

/// Returns the verdicts on three responses of which the second is bad; checks that no process is left at the end.
std::vector<tasks::Verdict> judge_with(const std::string& mode, void (*change)(tasks::CommandOptions&) = nullptr) {
  PythonCommand command(kFaults, {mode});
  const auto never_answers = {"sleeps", "late", "moves", "joins", "stops"};
  const bool is_late = std::find(never_answers.begin(), never_answers.end(), mode) != never_answers.end();
  command.options.command.timeout_s = is_late ? kDoesNot_s : kAnswers_s;
  if (change != nullptr) change(command.options.command);
  std::vector<tasks::Verdict> verdicts;
  {
    const auto verifier = command.make();
    verdicts = test::judge_all(*verifier, {"ok", "bad", "ok", "ok"});
  }
  CHECK(test::are_gone(command.file("pids")));
  return verdicts;
}

}  // namespace

TEST_CASE("command fault: an error of its row only, and a fresh worker judges the rest") {
  const auto check = [](const std::string& mode, const std::string& reason,
                        void (*change)(tasks::CommandOptions&) = nullptr) {
    CAPTURE(mode);
    const std::vector<tasks::Verdict> seen = judge_with(mode, change);
    REQUIRE(seen.size() == 4);
    const std::size_t bad = mode == "twice" ? 2 : 1;
    for (std::size_t i = 0; i < 4; ++i) {
      CAPTURE(i);
      CHECK(seen[i].verifier_error == (i == bad));
      CHECK(seen[i].dropped == (i == bad));
      if (i != bad) CHECK(seen[i].scores == std::vector<double>{1});
    }
    CHECK(seen[bad].reason == reason);
  };
  check("sleeps", "timeout");
  check("late", "timeout");
  for (const char* mode : {"moves", "joins", "stops"}) check(mode, "timeout");
  check("segfault", "crashed");
  check("closes", "crashed");
  check("memory", "crashed", [](tasks::CommandOptions& reward) { reward.memory_mb = 400; });
  for (const char* mode : {"garbage", "long", "unknown", "twice", "nan", "infinite", "name", "text", "deep", "deep id",
                           "deep score", "key twice", "no integer", "huge"})
    check(mode, "protocol");
  check("error", "error");
  check("null", "error");
}

TEST_CASE("command: a row whose worker died once is judged by the next one") {
  const std::vector<tasks::Verdict> seen = judge_with("once");
  for (const tasks::Verdict& verdict : seen) CHECK(verdict.outcome == tasks::Outcome::correct);
}

TEST_CASE("command: a program that ignores end of input is killed, with children in any group or session") {
  for (const char* mode : {"ignores", "child", "session", "daemon"}) {
    CAPTURE(mode);
    const std::vector<tasks::Verdict> seen = judge_with(mode);
    CHECK(seen[1].outcome == tasks::Outcome::correct);
  }
}

TEST_CASE("command: rows in flight beside one that kills its worker are judged") {
  const auto change = [](tasks::CommandOptions& reward) { reward.in_flight = 8; };
  for (const char* mode : {"segfault", "error"}) {
    const std::vector<tasks::Verdict> seen = judge_with(mode, change);
    for (const std::size_t i : {0, 2, 3}) CHECK(seen[i].outcome == tasks::Outcome::correct);
    CHECK(seen[1].verifier_error);
  }
}

TEST_CASE("on_error wrong: scores a failed response 0, and keeps it") {
  const std::vector<tasks::Verdict> seen =
      judge_with("segfault", [](tasks::CommandOptions& reward) { reward.on_error = tasks::OnVerifierError::wrong; });
  CHECK(seen[1].verifier_error);
  CHECK_FALSE(seen[1].dropped);
  CHECK(seen[1].scores == std::vector<double>{0});
}

TEST_CASE("command: a program that never becomes ready ends the run with exit code 2 and its last words") {
  const auto refusal = [](const std::string& mode) {
    PythonCommand command(kFaults, {mode});
    command.options.command.start_timeout_s = mode == "silent" ? 10 : kAnswers_s;  // Python starts within this time
    const auto [text, code] = test::error_of([&] { test::judge_all(*command.make(), {"ok"}); });
    CHECK(code == 2);
    CHECK(test::are_gone(command.file("pids")));
    return text;
  };
  using Catch::Contains;
  CHECK_THAT(refusal("exits"),
             Contains("reward.command") && Contains("ended with exit code 7") && Contains("no compiler here"));
  CHECK_THAT(refusal("silent"), Contains("reward.start_timeout_s = 10") && Contains("still importing"));
  CHECK_THAT(refusal("chatty"), Contains("got \"hello\""));
  CHECK_THAT(refusal("chatty ready"), Contains("got another line after it, before the first row: \"loading\""));
  CHECK_THAT(refusal("protocol 2"), Contains("protocol 2, but this program speaks protocol 1"));
  CHECK_THAT(refusal("deep ready"), Contains("JSON nested at most 32 deep") && Contains("got \"{\"ready\": {"));
  for (const char* mode : {"long ready", "endless ready"})
    CHECK_THAT(refusal(mode), Contains("a first line above 64 KiB"));
}

TEST_CASE("command: words that judge has shown are not said again") {
  PythonCommand command(kFaults, {"exits"});
  const auto verifier = command.make();
  verifier->show_log();
  const auto [text, code] = test::error_of([&] { test::judge_all(*verifier, {"ok"}); });
  CHECK(code == 2);
  CHECK_THAT(text, Catch::Contains("its standard error is above") && !Catch::Contains("no compiler here"));
}

TEST_CASE("command environment: only standard variables and those in reward.env") {
  const auto environment = [](std::vector<std::string> names) {
    PythonCommand command(R"(
import json, os, sys
sys.stdin.readline()
json.dump(dict(os.environ), open("environment", "w"))
if "QRL_TEST_REFUSES" in os.environ: sys.exit(os.environ["QRL_TEST_REFUSES"])
print('{"ready": {"scores": ["s"]}}', flush=True)
for line in sys.stdin: print(json.dumps({"id": json.loads(line)["id"], "score": 1}), flush=True)
)");
    command.options.command.env = std::move(names);
    const auto [text, code] = test::error_of([&] { test::judge_all(*command.make(), {"ok"}); });
    if (code != 0) return text;
    return test::read_file(command.file("environment"));
  };
  const std::vector<std::string> set = {
      "HF_TOKEN",   "AWS_SECRET_ACCESS_KEY", "A_JUDGES_KEY", "LC_TEST", "PYTHONTEST", "TEST_proxy",
      "TEST_PROXY", "SSL_CERT_TEST",         "OMP_TEST",     "QRL_TEST"};
  for (const std::string& name : set) setenv(name.c_str(), "in-the-environment", 1);
  using Catch::Contains;
  const nlohmann::json plain = nlohmann::json::parse(environment({}));
  for (const char* name : {"HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "A_JUDGES_KEY"}) CHECK_FALSE(plain.contains(name));
  for (std::size_t i = 3; i < set.size(); ++i) CHECK(plain.value(set[i], "") == "in-the-environment");
  CHECK_THAT(plain.value("PATH", ""),
             Catch::EndsWith(std::getenv("PATH")));  // python3 may be pyenv's, which adds to it
  const nlohmann::json named = nlohmann::json::parse(environment({"A_JUDGES_KEY"}));
  CHECK(named.value("A_JUDGES_KEY", "") == "in-the-environment");
  CHECK_FALSE(named.contains("HF_TOKEN"));
  CHECK_THAT(environment({"NOT_SET_AT_ALL"}), Contains("reward.env") && Contains("NOT_SET_AT_ALL"));
  // Of many withheld variables the error names those that the program does.
  setenv("QRL_TEST_REFUSES", "no A_JUDGES_KEY, no HF_TOKEN, no MY_AWS_SECRET_ACCESS_KEY", 1);
  CHECK_THAT(
      environment({"A_JUDGES_KEY"}),
      Contains("the program was not given HF_TOKEN: set reward.env: [HF_TOKEN]") && !Contains("in-the-environment"));
  setenv("QRL_TEST_REFUSES", "no reason", 1);
  CHECK_THAT(environment({}), Contains(" environment variables are withheld from it (reward.env: [NAME] passes") &&
                                  !Contains("HF_TOKEN"));
  unsetenv("QRL_TEST_REFUSES");
  for (const std::string& name : set) unsetenv(name.c_str());
}

TEST_CASE("command errors: end judging at the limit, and at once when the first 16 rows all fail") {
  const auto judge = [](const std::string& mode, std::vector<std::string> responses, std::int64_t max_errors) {
    PythonCommand command(kFaults, {mode});
    command.options.command.timeout_s = mode == "sleeps" ? kDoesNot_s : kAnswers_s;
    const auto verifier = command.make();
    const auto [text, code] =
        test::error_of([&] { test::judge_all(*verifier, responses, {.max_errors = max_errors}); });
    CHECK(code == 3);
    return text;
  };
  using Catch::Contains;
  std::vector<std::string> many(400, "bad");
  CHECK_THAT(judge("error", many, 1000),
             Contains("one of the first 16 responses") && Contains("16 error") && Contains("compiler missing"));
  many.insert(many.begin(), 20, "ok");
  CHECK_THAT(judge("sleeps", many, 2), Contains("reward.max_error_fraction") && Contains("3 timeout"));
  PythonCommand command(kFaults, {"error"});
  CHECK(test::judge_all(*command.make(), std::vector<std::string>(20, "bad")).size() == 20);  // no max_errors: no stop
}

TEST_CASE("interrupt: ends judging at once, and the next batch is judged") {
  PythonCommand command(kFaults, {"sleeps"});
  command.options.command.timeout_s = 3600;
  const auto verifier = command.make();
  struct Interrupted {};
  const double begin_s = base::now_s();
  CHECK_THROWS_AS(test::judge_all(*verifier, {"ok", "bad"},
                                  {.pause =
                                       [&] {
                                         if (base::now_s() - begin_s > 0.5) throw Interrupted{};
                                       }}),
                  Interrupted);
  CHECK(test::judge_all(*verifier, {"ok"}).front().outcome == tasks::Outcome::correct);
}

TEST_CASE("command processes: end after the program that started them was killed") {
  for (const char* mode : {"child", "session", "daemon", "moves", "joins"}) {
    CAPTURE(mode);
    PythonCommand command(kFaults, {mode});
    const pid_t program = fork();
    if (program == 0) {
      const auto verifier = command.make();
      (void)test::judge_all(*verifier, {"bad"});
      for (;;) pause();
    }
    const std::size_t num_awaited = mode == std::string("moves") ? 1 : 2;
    std::size_t num_pids = 0;
    for (int i = 0; i < 6000 && num_pids < num_awaited; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::ifstream in(command.file("pids"));
      num_pids = static_cast<std::size_t>(std::distance(std::istream_iterator<int>(in), {}));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // lets a process that moves finish its move
    CHECK(num_pids == num_awaited);
    ::kill(program, SIGKILL);
    waitpid(program, nullptr, 0);
    CHECK(test::are_gone(command.file("pids")));
  }
}
