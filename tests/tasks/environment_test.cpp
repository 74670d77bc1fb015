// Tests the workers of an environment: sessions in any order, faults of one conversation, replays in new workers.
#include "tasks/environment/environment.h"

#include <set>

#include "tasks/command_support.h"

using namespace qrl;
using tasks::EnvironmentAnswer;
using tasks::EnvironmentRequest;
using tasks::SessionEvent;
using tasks::SessionFault;

namespace {

/// Counts its turns, and does what the text says. `hello` and `answer` are for other programs.
constexpr const char* kCounting = R"(
import json, os, sys, time
def say(**answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
say(**json.loads('READY'))
turns, seeds, late = {}, {}, []
for line in sys.stdin:
    while late: say(id=late.pop(), observation="late")
    message = json.loads(line)
    if "hello" in message: continue
    (kind, body), = message.items()
    id = body["id"]
    open("pids", "a").write(f"{os.getpid()}\n")
    if kind == "start":
        turns[id], seeds[id] = 0, body["seed"]
        if body["prompt"] == "hang at start": time.sleep(3600)
        say(id=id, observation=None)
    elif kind == "row":
        say(id=id, row={"prompt": f"{body['set']} {body['index']}"})
    elif kind == "end":
        say(id=id, done=True, scores={"turns": turns[id]})
    else:
        turns[id] += 1
        text = body["text"]
        if text == "hang": time.sleep(3600)
        if text == "crash": os._exit(3)
        if text == "crash once" and not os.path.exists("crashed"):
            open("crashed", "w")
            os._exit(3)
        if text == "garbage": print("no json", flush=True)
        elif text == "long": print("x" * (5 << 20), flush=True)
        elif text == "unknown": say(id=123456, observation="?")
        elif text == "invalid": say(id=id, observation=3)
        elif text == "score": say(id=id, done=True, scores={"other": 1})
        elif text == "error": say(id=id, error="no such key")
        elif text == "done": say(id=id, done=True, scores={"turns": turns[id]}, reason="enough")
        elif text == "late":
            say(id=id, done=True, scores={"turns": turns[id]}, reason="enough")
            late.append(id)
        elif text == "twice":
            say(id=id, observation="once")
            say(id=id, observation="again")
        elif text == "twice by number":
            say(id=id, turn=turns[id], observation="once")
            say(id=id, turn=turns[id], observation="again")
        elif text == "after":
            say(id=id, done=True, scores={"turns": turns[id]})
            say(id=id, observation="again")
        elif text == "other" and os.path.exists("crashed"): say(id=id, observation="other")
        else: say(id=id, observation=f"{text} {turns[id]} {seeds[id]}", scores={"turns": 1})
)";

class Game {
 public:
  explicit Game(const std::string& ready = R"({"ready": {"scores": ["turns"]}})", std::int64_t sessions = 4) {
    std::string program = kCounting;
    program.replace(program.find("READY"), 5, ready);
    std::ofstream(dir_ / "game.py") << program;
    options.argv = {"python3", "game.py"};
    options.folder = dir_.path().string();
    options.workers = 1;
    options.sessions = sessions;
    options.timeout_s = 2;
    options.setup_timeout_s = 30;
  }
  std::filesystem::path file(const std::string& name) const { return dir_ / name; }

  tasks::EnvironmentOptions options;

 private:
  test::TempDir dir_;
};

std::string start_of(const std::string& prompt, int seed) {
  return tasks::start_fields(tasks::question_fields({"7", prompt, "toy"}, true), static_cast<std::uint64_t>(seed), 4,
                             false);
}

/// Plays one conversation per list of texts, all at once. Returns each one's observations, then how it ended.
std::vector<std::vector<std::string>> play(tasks::Environment& environment,
                                           const std::vector<std::vector<std::string>>& texts) {
  tasks::Sessions& sessions = environment.sessions();
  std::vector<std::vector<std::string>> shown(texts.size());
  std::vector<std::size_t> turns(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i)
    sessions.open(EnvironmentRequest::start, start_of(texts[i].empty() ? "hang at start" : "p", static_cast<int>(i)));
  const auto send = [&](std::size_t i) {
    const auto turn = static_cast<std::int64_t>(turns[i]) + 1;
    if (turns[i] == texts[i].size()) sessions.send(i, EnvironmentRequest::end, tasks::end_fields("max_turns"));
    else sessions.send(i, EnvironmentRequest::step, tasks::step_fields(turn, texts[i][turns[i]], "eos", false));
    ++turns[i];
  };
  const auto take = [&](double most_s) {
    for (const SessionEvent& event : sessions.take_events(most_s)) {
      std::vector<std::string>& of = shown[event.session];
      constexpr const char* kNamesOfFaults[] = {"none", "timeout", "crashed", "protocol"};
      if (event.fault != SessionFault::none) of.push_back(kNamesOfFaults[static_cast<std::size_t>(event.fault)]);
      else if (event.answer.kind == EnvironmentAnswer::Kind::done) of.push_back("done " + event.answer.closing);
      else if (event.answer.kind == EnvironmentAnswer::Kind::error) of.push_back("error " + event.answer.text);
      else if (!event.answer.messages.empty()) of.push_back(event.answer.messages.front().content);
      if (event.fault == SessionFault::none && event.answer.kind == EnvironmentAnswer::Kind::goes_on)
        send(event.session);
    }
  };
  while (sessions.num_open() > 0) take(1);
  take(0.05);
  sessions.clear();
  return shown;
}

const std::vector<std::vector<std::string>> kTalk = {{"a", "b", "done"}, {"a", "done"}, {"c", "c", "c", "done"}, {"d"}};

std::string closing(const std::string& reason) { return "done {\"reason\":\"" + reason + "\"}"; }

}  // namespace

TEST_CASE("environment: conversations have their turns, seeds and ends, whatever the number of sessions and workers") {
  const std::vector<std::vector<std::string>> want = {{"a 1 0", "b 2 0", closing("enough")},
                                                      {"a 1 1", closing("enough")},
                                                      {"c 1 2", "c 2 2", "c 3 2", closing("enough")},
                                                      {"d 1 3", "done {}"}};
  for (const std::int64_t sessions : {1, 2, 16}) {
    for (const std::int64_t workers : {1, 2}) {
      Game game(R"({"ready": {"scores": ["turns"]}})", sessions);
      game.options.workers = workers;
      tasks::Environment environment(game.options);
      CHECK(play(environment, kTalk) == want);
      CHECK(play(environment, kTalk) == want);  // the workers are used again
    }
  }
}

TEST_CASE("environment: a fault is one error of its conversation, and the others go on") {
  const auto want = std::vector<std::string>{"a 1 1", "b 2 1", closing("enough")};
  const std::pair<const char*, const char*> faults[] = {
      {"hang", "timeout"},     {"crash", "crashed"},    {"garbage", "protocol"}, {"long", "protocol"},
      {"unknown", "protocol"}, {"invalid", "protocol"}, {"score", "protocol"},   {"error", "error no such key"}};
  for (const auto& [text, end] : faults) {
    INFO(text);
    Game game;
    tasks::Environment environment(game.options);
    const auto shown = play(environment, {{"x", text}, {"a", "b", "done"}});
    CHECK(shown[0].back() == end);
    if (std::string(text) == "garbage" || std::string(text) == "long" || std::string(text) == "unknown") continue;
    CHECK(shown[1] == want);
  }
}

TEST_CASE("environment: an answer twice, or after done, is an error of that conversation alone") {
  for (const char* text : {"twice", "after"}) {
    INFO(text);
    Game game;
    tasks::Environment environment(game.options);
    const auto shown = play(environment, {{"x", text, "y", "y", "y"}, {"a", "b", "done"}});
    CAPTURE(shown[0]);
    CHECK(std::ranges::count(shown[0], "protocol") == 1);
    CHECK(shown[1] == std::vector<std::string>{"a 1 1", "b 2 1", closing("enough")});
  }
}

TEST_CASE("environment: second answer with its turn's number is an error at once") {
  Game game;
  tasks::Environment environment(game.options);
  const auto shown = play(environment, {{"x", "twice by number", "y", "y"}, {"a", "b", "done"}});
  CHECK(shown[0] == std::vector<std::string>{"x 1 0", "once", "protocol"});
  CHECK(shown[1] == std::vector<std::string>{"a 1 1", "b 2 1", closing("enough")});
}

TEST_CASE("environment: an answer to a conversation of an earlier step ends the worker, and no conversation fails") {
  Game game;
  tasks::Environment environment(game.options);
  CHECK(play(environment, {{"x", "late"}})[0].back() == closing("enough"));
  CHECK(play(environment, {{"a", "done"}})[0] == std::vector<std::string>{"a 1 0", closing("enough")});
}

TEST_CASE("environment: a conversation whose worker died is played again, and fails if its answers differ") {
  Game game;
  {
    tasks::Environment environment(game.options);
    const auto shown = play(environment, {{"a", "crash once", "done"}, {"b", "b", "b", "done"}});
    CHECK(shown[0] == std::vector<std::string>{"a 1 0", "crash once 2 0", closing("enough")});
    CHECK(shown[1] == std::vector<std::string>{"b 1 1", "b 2 1", "b 3 1", closing("enough")});
  }
  std::filesystem::remove(game.file("crashed"));
  tasks::Environment environment(game.options);
  CHECK(play(environment, {{"other", "crash once", "done"}})[0].back() == "protocol");
}

TEST_CASE("environment: a start has its own time limit, and no process is left") {
  Game game;
  game.options.setup_timeout_s = 5;
  {
    tasks::Environment environment(game.options);
    CHECK(play(environment, {{}, {"a", "done"}})[0] == std::vector<std::string>{"timeout"});
  }
  CHECK(test::are_gone(game.file("pids")));
}

TEST_CASE("environment: rows are those of the program, in order") {
  Game game(R"({"ready": {"scores": ["turns"], "rows": {"train": 70, "val": 2}}})");
  tasks::Environment environment(game.options);
  CHECK(environment.start().owns_rows);
  const std::vector<std::string> rows = environment.rows("train", environment.start().num_train_rows);
  REQUIRE(rows.size() == 70);
  CHECK(rows[69] == R"({"prompt":"train 69"})");
  CHECK(environment.rows("val", 2)[1] == R"({"prompt":"val 1"})");
}

TEST_CASE("environment: a ready line that says what cannot be is refused by name") {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"ready": {"scores": 3}})", "scores"},
      {R"({"ready": {"tools": [{"name": "f"}]}})", "tools"},
      {R"({"ready": {"tools": [{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "f"}}]}})",
       "twice"},
      {R"({"ready": {"system": 1}})", "system"},
      {R"({"ready": {"rows": {"train": 0}}})", "rows"},
      {R"({"ready": {"protocol": 2}})", "protocol"},
      {R"({"error": "envs.py:3: add has no docstring"})", "envs.py:3: add has no docstring"}};
  for (const auto& [ready, name] : cases) {
    INFO(ready);
    const Game game(ready);
    const auto [error, code] = test::error_of([&] { tasks::Environment(game.options).start(); });
    CHECK_THAT(error, Catch::Contains(name));
    CHECK(code == 2);
  }
  Game game(R"({"ready": {"tools": [{"type": "function", "function": {"name": "f"}}]}})");
  game.options.max_turns = 1;
  CHECK_THAT(test::error_of([&] { tasks::Environment(game.options).start(); }).first,
             Catch::Contains("environment.max_turns"));
  game.options.max_turns = 2;
  game.options.role = tasks::ObservationRole::user;
  CHECK_THAT(test::error_of([&] { tasks::Environment(game.options).start(); }).first, Catch::Contains("role tool"));
}

TEST_CASE("environment: scores without a number are errors, and on_error wrong scores 0") {
  Game game;
  game.options.on_error = tasks::OnVerifierError::wrong;
  tasks::Environment environment(game.options);
  environment.start();
  CHECK(environment.verdict({2}, "{}").scores == std::vector<double>{2});
  const tasks::Verdict none = environment.verdict({std::numeric_limits<double>::quiet_NaN()}, "{}");
  CHECK(none.verifier_error);
  CHECK_FALSE(none.dropped);
  CHECK(none.scores == std::vector<double>{0});
}
