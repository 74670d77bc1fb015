#include "train/files/wandb_logger.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "base/python.h"
#include "base/shipped_files.h"
#include "base/spawn.h"
#include "base/text.h"

namespace qrl::train {

namespace {

constexpr const char* kWandbKey = "trainer.wandb";
constexpr const char* kLogModule = "qrl_log";

struct PipeEnds {
  int read = -1, write = -1;
};

PipeEnds make_log_pipe() {
  int ends[2];
  QRL_INVARIANT(pipe2(ends, O_CLOEXEC) == 0, kWandbKey, "a pipe", std::strerror(errno), "raise ulimit -n");
  return {ends[0], ends[1]};
}

/// Starts the module with `words` in a session of its own. `output`: its standard output and error, or -1 for the
/// terminal's error stream. Returns -1 and sets errno if the program cannot be started.
pid_t start_logger(const std::vector<std::string>& words, int input, int output) {
  base::SpawnPlan plan;
  posix_spawn_file_actions_adddup2(&plan.actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&plan.actions, output < 0 ? STDERR_FILENO : output, STDOUT_FILENO);
  if (output >= 0) posix_spawn_file_actions_adddup2(&plan.actions, output, STDERR_FILENO);
  std::vector<std::string> argv = {base::python_program(), "-m", kLogModule, "wandb"};
  argv.insert(argv.end(), words.begin(), words.end());
  const std::vector<std::string> environment = base::python_environment(std::string(kLogModule) + ".py");
  pid_t child = -1;
  const int error = posix_spawnp(&child, argv[0].c_str(), &plan.actions, &plan.attributes,
                                 base::pointers_of(argv).data(), base::pointers_of(environment).data());
  errno = error;
  return error == 0 ? child : -1;
}

std::string last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \n\r\t");
  if (end == std::string_view::npos) return "";
  text = text.substr(0, end + 1);
  const std::size_t before = text.rfind('\n');
  return std::string(before == std::string_view::npos ? text : text.substr(before + 1));
}

}  // namespace

std::string WandbLogger::fault() {
  const PipeEnds in = make_log_pipe(), out = make_log_pipe();
  const pid_t child = start_logger({"--check"}, in.read, out.write);
  std::string no_python = child < 0 ? base::python_program() + ": " + std::strerror(errno) : "";
  for (const int fd : {in.read, in.write, out.write}) ::close(fd);
  const std::string said = base::read_all(out.read);
  ::close(out.read);
  if (child < 0) return no_python;
  const int status = base::wait_for(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  const std::string line = last_line(said);
  return line.empty() ? base::python_program() + " -m qrl_log wandb --check, which failed" : line;
}

WandbLogger::WandbLogger(const std::filesystem::path& run_folder) {
  const std::string folder = std::filesystem::absolute(run_folder).string();
  const std::string script = base::shipped_folder("apps/python", "python", std::string(kLogModule) + ".py");
  command_ = base::python_program() + " " + base::shell_word(script + "/" + kLogModule + ".py") + " wandb " +
             base::shell_word(folder);
  const PipeEnds in = make_log_pipe();
  child_ = start_logger({folder, "--child"}, in.read, -1);
  const std::string error = std::strerror(errno);
  ::close(in.read);
  input_ = in.write;
  if (child_ >= 0) return;
  ::close(input_);
  base::fail_input(kWandbKey, "a Python that starts", base::python_program() + ": " + error);
}

WandbLogger::~WandbLogger() {
  constexpr double kPatience_s = 30;
  ::close(input_);
  int status = 0;
  const double end_s = base::now_s() + kPatience_s;
  pid_t ended = 0;
  while ((ended = waitpid(child_, &status, WNOHANG)) == 0 && base::now_s() < end_s) usleep(20'000);
  if (ended == 0) {
    base::log_info("W&B still receives the last rows; this goes on without the run");
  } else if (ended == child_ && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
    const std::string how = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                                : "exit code " + std::to_string(WEXITSTATUS(status));
    base::log_warning("what sends the run to W&B ended with " + how + "; `" + command_ + "` sends what is missing");
  }
}

}  // namespace qrl::train
