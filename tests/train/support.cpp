#include "train/support.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "dist/collectives.h"
#include "state/folder.h"
#include "support/catch.h"
#include "support/files.h"

namespace qrl::test {

namespace fs = std::filesystem;

std::string tiny_command(const fs::path& run, const std::string& arguments, const std::string& launcher) {
  return launcher + " " + kProgram + kTiny + " --set trainer.default_local_dir=" + run.string() + " " + arguments;
}

std::string tiny_command(const KernelPath& path, const fs::path& run, const std::string& arguments) {
  note_run(path);
  const std::string program = path.emulated ? QRL_BINARY_DIR "/tests/qrl-train-emulated-tiles " : kProgram;
  return "env QRL_ISA=" + std::string(ops::name(path.isa)) + " " + program + kTiny +
         " --set trainer.default_local_dir=" + run.string() + " " + arguments;
}

namespace {

void finish_run(const fs::path& run) {
  const Outcome outcome = run_command(tiny_command(run));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
}

}  // namespace

const fs::path& finished_run() {
  static const TempDir dir;
  static const fs::path run = [] {
    if (const char* made = std::getenv("QRL_FINISHED_RUN")) return fs::path(made);
    finish_run(dir / "run");
    return dir / "run";
  }();
  return run;
}

fs::path copy_of_finished_run(const fs::path& to) {
  fs::copy(finished_run(), to, fs::copy_options::recursive);
  return to;
}

namespace {

/// Returns the run that ctest shares, and where the hashes of its files are noted.
fs::path shared_run() {
  const char* run = std::getenv("QRL_FINISHED_RUN");
  REQUIRE(run != nullptr);
  return run;
}
fs::path note_of(const fs::path& run) { return run.string() + ".note"; }

std::string hashes(const fs::path& run) {
  std::map<std::string, std::size_t> files;
  for (const auto& entry : fs::recursive_directory_iterator(run))
    if (entry.is_regular_file()) files[entry.path().string()] = std::hash<std::string>{}(read_file(entry.path()));
  return nlohmann::json(files).dump(1);
}

}  // namespace

TEST_CASE("finished run: made for the cases that read it", "[.finish]") {
  const fs::path run = shared_run();
  fs::remove_all(run);
  finish_run(run);
  std::ofstream(note_of(run)) << hashes(run);
}

TEST_CASE("finished run: unchanged by every case", "[.unchanged]") {
  CHECK(hashes(shared_run()) == read_file(note_of(shared_run())));
}

void copy_edited(const fs::path& from, const fs::path& to, const char* file,
                 const std::function<void(std::string&)>& edit) {
  state::commit_folder(
      to,
      [&](const fs::path& tmp) {
        for (const auto& entry : fs::directory_iterator(from)) {
          if (entry.path().filename() != "manifest.json") fs::copy(entry.path(), tmp / entry.path().filename());
        }
        std::string text = read_file(tmp / file);
        edit(text);
        std::ofstream(tmp / file) << text;
      },
      state::folder_facts(from));
}

void write_recipe(const fs::path& file, const std::vector<std::pair<std::string, std::string>>& changes) {
  std::string text = qrl::test::read_file(QRL_SOURCE_DIR "/tests/train/tiny.yaml");
  const auto replace = [&](const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  };
  for (const auto& [from, to] : changes) replace(from, to);
  if (text.find("../../") != std::string::npos) replace("../../", QRL_SOURCE_DIR "/");
  std::ofstream(file) << text;
}

Outcome run_command(const std::string& command) {
  Outcome outcome;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char piece[4096];
  for (std::size_t n = 0; (n = std::fread(piece, 1, sizeof piece, pipe)) > 0;) outcome.output.append(piece, n);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

bool says(const Outcome& outcome, const std::string& text) {
  UNSCOPED_INFO(outcome.output);
  return outcome.output.find(text) != std::string::npos;
}

pid_t start_command(const std::string& command, const fs::path& log) {
  const std::string shell = "exec " + command;
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    setpgid(0, 0);
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execl("/bin/sh", "sh", "-c", shell.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  return pid;
}

std::vector<pid_t> children_of(pid_t pid) {
  const std::string number = std::to_string(pid);
  std::ifstream in("/proc/" + number + "/task/" + number + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; in >> child;) children.push_back(child);
  return children;
}

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool wait_for_file(const fs::path& file, pid_t pid, std::uintmax_t bytes) {
  std::error_code absent;
  while (!fs::exists(file, absent) || (bytes > 0 && fs::file_size(file, absent) < bytes)) {
    siginfo_t ended{};
    if (waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == pid)
      return false;
    usleep(1'000);
  }
  return true;
}

void flip_bit(const fs::path& file, std::uint64_t bit) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto at = static_cast<std::streamoff>(bit / 8);
  bytes.seekg(at);
  const int old = bytes.get();
  REQUIRE(old >= 0);
  bytes.seekp(at);
  bytes.put(static_cast<char>(old ^ (1 << (bit % 8))));
}

std::vector<std::string> names_in(const fs::path& dir) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<nlohmann::json> stable_rows(const fs::path& file) {
  std::vector<nlohmann::json> rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    nlohmann::json row = nlohmann::json::parse(line);
    for (auto item = row.begin(); item != row.end();) {
      item = item.key().starts_with("timing_s/") || item.key().starts_with("perf/") ? row.erase(item) : std::next(item);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

nlohmann::json held_out_figures(const nlohmann::json& row) {
  nlohmann::json figures;
  for (const auto& [name, value] : row.items()) {
    if (name.starts_with("val/")) figures[name] = value;
  }
  return figures;
}

std::string difference(const fs::path& a, const fs::path& b) {
  const bool adapters = fs::exists(a / "checkpoints/step_4/adapter_model.safetensors");
  for (const char* name : {adapters ? "adapter_model.safetensors" : "model.safetensors", "optimizer.safetensors",
                           "config.json", "tokenizer.json"}) {
    const fs::path file = fs::path("checkpoints") / "step_4" / name;
    const std::string left = qrl::test::read_file(a / file);
    if (left.empty() || left != qrl::test::read_file(b / file)) return file.string();
  }
  for (const char* name : {"metrics.jsonl", "sft_metrics.jsonl"}) {
    if (std::string(name) == "sft_metrics.jsonl" && !fs::exists(a / name) && !fs::exists(b / name)) continue;
    const auto left = stable_rows(a / name);
    if (left.empty() || left != stable_rows(b / name)) return name;
  }
  for (int step = 1; step <= 4; ++step) {
    const fs::path file = fs::path("rollouts") / ("step_" + std::to_string(step) + ".jsonl");
    const std::string left = qrl::test::read_file(a / file);
    if (left.empty() || left != qrl::test::read_file(b / file)) return file.string();
  }
  return {};
}

std::string mpirun(int num_ranks) {
  const std::string version = dist::mpi_version();
  if (version == "off" || version.starts_with("none") || std::system("command -v mpirun > /dev/null 2>&1") != 0)
    return {};
  return "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 mpirun "
         "--oversubscribe -np " +
         std::to_string(num_ranks);
}

}  // namespace qrl::test
