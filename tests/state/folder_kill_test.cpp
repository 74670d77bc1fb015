// Kills a save at each of its system calls, and reads off their order what a power cut could find.
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/error.h"
#include "state/folder.h"
#include "support/catch.h"

using namespace qrl;
using namespace qrl::state;
namespace fs = std::filesystem;

namespace {

/// A system call of the traced process and the file it works on.
struct Call {
  unsigned long long number = 0;
  std::string path;
};

struct Trace {
  std::vector<Call> calls;
  bool possible = true;  ///< false where this machine forbids tracing
  bool killed = false;
  int exit_code = -1;
};

std::string path_of_fd(pid_t pid, unsigned long long fd) {
  std::error_code error;
  return fs::read_symlink("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd), error).string();
}

/// Runs `body` in a child process and kills it (SIGKILL) on entry to its `kill_at`-th system call, counted from 0.
Trace run_traced(const std::function<void()>& body, std::size_t kill_at) {
  Trace trace;
  const pid_t pid = fork();
  if (pid == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(99);
    raise(SIGSTOP);
    try {
      body();
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (!WIFSTOPPED(status)) {
    trace.possible = false;
    return trace;
  }
  ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  for (bool entry = true;;) {
    ptrace(PTRACE_SYSCALL, pid, nullptr, nullptr);
    waitpid(pid, &status, 0);
    if (WIFEXITED(status)) {
      trace.exit_code = WEXITSTATUS(status);
      return trace;
    }
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    if (entry) {
      if (trace.calls.size() == kill_at) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        trace.killed = true;
        return trace;
      }
      user_regs_struct registers{};
      ptrace(PTRACE_GETREGS, pid, nullptr, &registers);
      trace.calls.push_back({registers.orig_rax, path_of_fd(pid, registers.rdi)});
    }
    entry = !entry;
  }
}

void fill(const fs::path& dir) {
  fs::create_directory(dir / "sub");
  for (const std::string name : {"weights.bin", "sub/moments"}) {
    const int fd = open((dir / name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    for (int i = 0; i < 2; ++i) {
      if (write(fd, name.data(), name.size()) < 0) _exit(98);
    }
    close(fd);
  }
}

constexpr std::size_t kNever = ~std::size_t{0};

}  // namespace

TEST_CASE("a save killed at any of its system calls leaves the old state or the new one") {
  const qrl::test::TempDir dir;
  const auto save = [&] { commit_folder(dir / "step_2", fill, R"({"step":2})"); };
  commit_folder(dir / "step_1", fill, R"({"step":1})");
  if (!run_traced([] {}, kNever).possible) return qrl::test::skip("this machine forbids ptrace");

  std::size_t kills = 0;
  bool committed = false;
  for (;; ++kills) {
    const Trace trace = run_traced(save, kills);
    const bool there = fs::exists(dir / "step_2");
    INFO("killed at system call " << kills);
    CHECK(verify_folder(dir / "step_1") == std::nullopt);
    if (there) CHECK(verify_folder(dir / "step_2") == std::nullopt);
    CHECK((there || !committed));  // once the rename is done, later kills find it done too
    committed = there;
    remove_leftovers(dir.path());
    CHECK(std::distance(fs::directory_iterator(dir.path()), {}) == (there ? 2 : 1));
    fs::remove_all(dir / "step_2");
    if (!trace.killed) {
      CHECK(trace.exit_code == 0);
      CHECK(there);
      break;
    }
  }
  CHECK(kills > 30);
}

TEST_CASE("a small file whose replacement is killed is the old one or the new one") {
  const qrl::test::TempDir dir;
  if (!run_traced([] {}, kNever).possible) return qrl::test::skip("this machine forbids ptrace");
  bool seen_old = false, seen_new = false;
  for (std::size_t kill_at = 0;; ++kill_at) {
    replace_file(dir / "f", "old");
    const Trace trace = run_traced([&] { replace_file(dir / "f", "new!"); }, kill_at);
    std::string text;
    std::ifstream(dir / "f") >> text;
    CHECK((text == "old" || text == "new!"));
    seen_old = seen_old || text == "old";
    seen_new = seen_new || text == "new!";
    remove_leftovers(dir.path());
    CHECK(std::distance(fs::directory_iterator(dir.path()), {}) == 1);
    if (!trace.killed) break;
  }
  CHECK((seen_old && seen_new));
}

TEST_CASE("every byte and every name is on the disk before the rename, the rename before the return") {
  const qrl::test::TempDir dir;
  const Trace trace = run_traced([&] { commit_folder(dir / "step_1", fill, "{}"); }, kNever);
  if (!trace.possible) return qrl::test::skip("this machine forbids ptrace");
  REQUIRE(trace.exit_code == 0);
  // Position of the last call of a kind on the file whose path ends so; −1 when there was none.
  const auto last = [&](unsigned long long number, const std::string& ending) {
    for (auto i = static_cast<int>(trace.calls.size()) - 1; i >= 0; --i) {
      const Call& call = trace.calls[static_cast<std::size_t>(i)];
      if (call.number == number && call.path.ends_with(ending)) return i;
    }
    return -1;
  };
  const int renamed = last(SYS_rename, "");
  REQUIRE(renamed > 0);
  for (const std::string name : {"/weights.bin", "/sub/moments", "/manifest.json"}) {
    INFO(name);
    CHECK(last(SYS_write, name) >= 0);
    CHECK(last(SYS_fsync, name) > last(SYS_write, name));
    CHECK(last(SYS_fsync, name) < renamed);
    CHECK(last(SYS_fsync, name) <= last(SYS_fsync, "/manifest.json"));
  }
  // The temporary folder's path is that of its files without their names.
  const auto of_manifest = static_cast<std::size_t>(last(SYS_fsync, "/manifest.json"));
  const std::string temporary = fs::path(trace.calls[of_manifest].path).parent_path();
  CHECK(temporary.find("step_1.tmp-") != std::string::npos);
  for (const std::string& folder : {temporary, temporary + "/sub"}) {
    CHECK(last(SYS_fsync, folder) > last(SYS_write, "/manifest.json"));
    CHECK(last(SYS_fsync, folder) < renamed);
  }
  CHECK(last(SYS_fsync, fs::canonical(dir.path()).string()) > renamed);
}
