// Owns the helpers of the command tests: programs in Python, options that name them, and checks for remaining
// processes.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "support/catch.h"
#include "tasks/support.h"
#include "tasks/verifier.h"

namespace qrl::test {

/// Builds options whose command is a Python program; `arguments` follow its file.
class PythonCommand {
 public:
  explicit PythonCommand(const std::string& program, std::vector<std::string> arguments = {}) {
    std::ofstream(dir_ / "judge.py") << program;
    options.command.argv = {"python3", "judge.py"};
    for (std::string& argument : arguments) options.command.argv.push_back(std::move(argument));
    options.command.folder = dir_.path().string();
    options.command.workers = 1;
  }
  std::filesystem::path file(const std::string& name) const { return dir_ / name; }
  std::unique_ptr<tasks::Verifier> make() const { return tasks::make_verifier(options); }

  tasks::VerifierOptions options = options_with("command");

 private:
  TempDir dir_;
};

/// Returns the verdicts on responses to one question.
inline std::vector<tasks::Verdict> judge_all(const tasks::Verifier& verifier, const std::vector<std::string>& responses,
                                             const tasks::JudgeContext& context = {}) {
  const auto gold = verifier.prepare({"7", "seven?", "toy"});
  std::vector<tasks::Sample> samples;
  for (const std::string& response : responses) samples.push_back({response, gold.get()});
  return verifier.judge(samples, context);
}

/// Returns whether a process runs; a zombie does not.
inline bool runs(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text, '\0');  // empty if the process ends meanwhile
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] != 'Z';
}

/// Returns whether the processes listed in a file, one id a line, are gone. They would live for an hour, so waiting for
/// half a minute asserts no time.
inline bool are_gone(const std::filesystem::path& pids) {
  for (int i = 0; i <= 1500; ++i) {
    std::ifstream in(pids);
    bool gone = true;
    for (pid_t pid = 0; in >> pid;) gone = gone && !runs(pid);
    if (gone) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

/// Returns the message and exit code of the error that `body` throws; "" and 0 if it throws none.
template <class Body>
std::pair<std::string, int> error_of(const Body& body) {
  try {
    body();
  } catch (const base::Error& error) {
    return {error.what(), error.exit_code()};
  }
  return {"", 0};
}

}  // namespace qrl::test
