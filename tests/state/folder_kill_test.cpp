// Tests interrupted saves: killed at each system call, each call failing, power cut between any two.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <random>

#include "state/folder.h"
#include "state/power_cut.h"
#include "state/trace.h"
#include "support/catch.h"

using namespace qrl;
using namespace qrl::state;
using qrl::test::run_traced;
using qrl::test::Trace;
namespace fs = std::filesystem;

namespace {

void fill_step(const fs::path& dir) {
  fs::create_directory(dir / "sub");
  for (const std::string name : {"weights.bin", "sub/moments"}) {
    const int fd = open((dir / name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    for (int i = 0; i < 2; ++i) {
      if (write(fd, name.data(), name.size()) < 0) _exit(98);
    }
    close(fd);
  }
}

}  // namespace

TEST_CASE("checkpoint folder: a save killed at any system call leaves the old state or the new one") {
  const qrl::test::TempDir dir;
  const auto save = [&] { commit_folder(dir / "step_2", fill_step, R"({"step":2})"); };
  commit_folder(dir / "step_1", fill_step, R"({"step":1})");
  if (!run_traced([] {}).possible) return qrl::test::skip("this machine forbids ptrace");

  std::size_t kills = 0;
  bool committed = false;
  for (;; ++kills) {
    const Trace trace = run_traced(save, {.kill_at = kills});
    const bool there = fs::exists(dir / "step_2");
    INFO("killed at system call " << kills);
    CHECK(verify_folder(dir / "step_1") == std::nullopt);
    if (there) CHECK(verify_folder(dir / "step_2") == std::nullopt);
    CHECK((there || !committed));  // after the rename, later kills also find it done
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

TEST_CASE("small file: a replacement killed at any system call leaves the old file or the new one") {
  const qrl::test::TempDir dir;
  if (!run_traced([] {}).possible) return qrl::test::skip("this machine forbids ptrace");
  bool seen_old = false, seen_new = false;
  for (std::size_t kill_at = 0;; ++kill_at) {
    replace_file(dir / "f", "old");
    const Trace trace = run_traced([&] { replace_file(dir / "f", "new!"); }, {.kill_at = kill_at});
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

TEST_CASE("checkpoint folder: a save with any failing system call leaves the old state, or the new one whole") {
  const qrl::test::TempDir dir;
  const auto save = [&] { commit_folder(dir / "step_2", fill_step, R"({"step":2})"); };
  commit_folder(dir / "step_1", fill_step, R"({"step":1})");
  if (!run_traced([] {}).possible) return qrl::test::skip("this machine forbids ptrace");
  int failed = 0;
  for (const int error : {EIO, ENOSPC}) {
    for (std::size_t fail_at = 0;; ++fail_at) {
      const Trace trace = run_traced(save, {.fail_at = fail_at, .error = error});
      if (fail_at >= trace.calls.size()) break;
      const qrl::test::Call& call = trace.calls[fail_at];
      const bool there = fs::exists(dir / "step_2");
      INFO("call " << fail_at << ", number " << call.number << " on " << call.path << ", error " << error);
      CHECK(verify_folder(dir / "step_1") == std::nullopt);
      if (there) CHECK(verify_folder(dir / "step_2") == std::nullopt);
      CHECK((there || trace.exit_code != 0));
      // Each of these calls matters: no failure may go unnoticed.
      const bool matters = call.number == SYS_write || call.number == SYS_fsync || call.number == SYS_rename ||
                           call.number == SYS_mkdir || (call.number == SYS_openat && call.path.starts_with("/tmp"));
      if (matters) CHECK(trace.exit_code != 0);
      failed += trace.exit_code != 0 ? 1 : 0;
      remove_leftovers(dir.path());
      CHECK(std::distance(fs::directory_iterator(dir.path()), {}) == (there ? 2 : 1));
      fs::remove_all(dir / "step_2");
    }
  }
  CHECK(failed > 60);
}

TEST_CASE("checkpoint folder: a power cut at any moment of a save leaves the old state, or the new one whole") {
  const qrl::test::TempDir dir;
  if (!run_traced([] {}).possible) return qrl::test::skip("this machine forbids ptrace");
  commit_folder(dir / "step_1", fill_step, R"({"step":1})");
  replace_file(dir / "newest", "step_1");
  const qrl::test::Disk before(dir.path());
  const Trace trace = run_traced([&] {
    commit_folder(dir / "step_2", fill_step, R"({"step":2})");
    replace_file(dir / "newest", "step_2");
  });
  REQUIRE(trace.exit_code == 0);

  std::mt19937 random(20261121);
  int seen_old = 0, seen_new = 0;
  for (int i = 0; i < 300; ++i) {
    const std::size_t cut = i == 0 ? trace.calls.size() : random() % (trace.calls.size() + 1);
    const qrl::test::TempDir image;
    before.after_power_cut(trace.calls, cut, random).write_to(image.path());
    INFO("image " << i << ", cut before call " << cut);
    CHECK(verify_folder(image / "step_1") == std::nullopt);
    std::string newest;
    std::ifstream(image / "newest") >> newest;
    CHECK((newest == "step_1" || newest == "step_2"));
    CHECK(verify_folder(image / newest) == std::nullopt);  // an announced folder exists and is complete
    if (fs::exists(image / "step_2")) CHECK(verify_folder(image / "step_2") == std::nullopt);
    if (cut == trace.calls.size()) CHECK(newest == "step_2");
    (fs::exists(image / "step_2") ? seen_new : seen_old) += 1;
    remove_leftovers(image.path());
    if (!fs::exists(image / "step_2")) commit_folder(image / "step_2", fill_step, R"({"step":2})");
    CHECK(std::distance(fs::directory_iterator(image.path()), {}) == 3);
  }
  CHECK(seen_old > 30);
  CHECK(seen_new > 30);
}
