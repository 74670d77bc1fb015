#include "state/folder.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "state/sealed.h"
#include "support/catch.h"
#include "support/files.h"

using namespace qrl;
using namespace qrl::state;
namespace fs = std::filesystem;

namespace {

void write_bytes(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

nlohmann::json manifest(const fs::path& dir) {
  return nlohmann::json::parse(qrl::test::read_file(dir / "manifest.json"));
}

void fill(const fs::path& dir) {
  write_bytes(dir / "weights.bin", std::string(300, 'w') + std::string(3, '\0'));
  write_bytes(dir / "empty", "");
  fs::create_directory(dir / "sub");
  write_bytes(dir / "sub" / "metrics", "1\n2\n");
}

std::size_t num_entries(const fs::path& dir) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(dir), {}));
}

}  // namespace

TEST_CASE("hash: XXH3-128") {
  // XXH3-128 of the empty text with seed 0, from python-xxhash.
  const qrl::test::TempDir dir;
  const auto fill_two = [](const fs::path& folder) {
    write_bytes(folder / "empty", "");
    // Longer than one chunk of the reader; the value is python-xxhash's xxh3_128_hexdigest.
    write_bytes(folder / "long", std::string(3'000'001, 'a'));
  };
  commit_folder(dir / "x", fill_two, "{}");
  const auto files = manifest(dir / "x").at("files");
  CHECK(files.at("empty").at("xxh3_128") == "99aa06d3014798d86001c324468d497f");
  CHECK(files.at("long").at("xxh3_128") == "f52f621fe89d13b0596e06f4a8e77dd3");
}

TEST_CASE("checkpoint folder: after commit it verifies and gives back its facts") {
  const qrl::test::TempDir dir;
  const std::string facts = R"({"step":7,"lr":1e-06,"name":"a\nb"})";
  commit_folder(dir / "step_7", fill, facts);
  CHECK(num_entries(dir.path()) == 1);
  CHECK(verify_folder(dir / "step_7") == std::nullopt);
  CHECK(manifest(dir / "step_7").at("facts") == nlohmann::json::parse(facts));
  CHECK(qrl::test::read_file(dir / "step_7/sub/metrics") == "1\n2\n");
  CHECK_THROWS_AS(commit_folder(dir / "step_7", fill, facts), base::Error);
  CHECK(verify_folder(dir / "step_7") == std::nullopt);
}

TEST_CASE("checkpoint folder: a failed fill leaves nothing behind") {
  const qrl::test::TempDir dir;
  const auto failing = [](const fs::path& into) {
    fill(into);
    throw std::runtime_error("disk full");
  };
  CHECK_THROWS_WITH(commit_folder(dir / "x", failing, "{}"), "disk full");
  CHECK(num_entries(dir.path()) == 0);
  CHECK_THROWS_AS(commit_folder(dir / "x", fill, "{no json"), base::Error);
  CHECK_THROWS_AS(commit_folder(
                      dir / "x", [](const fs::path& into) { fs::create_symlink("/etc", into / "link"); }, "{}"),
                  base::Error);
  CHECK_THROWS_AS(commit_folder(
                      dir / "x", [](const fs::path& into) { write_bytes(into / "manifest.json", "{}"); }, "{}"),
                  base::Error);
  CHECK(num_entries(dir.path()) == 0);
}

TEST_CASE("checkpoint folder: every flipped bit of every file is detected") {
  const qrl::test::TempDir dir;
  commit_folder(dir / "x", fill, R"({"step":1})");
  int flips = 0;
  for (const std::string name : {"manifest.json", "weights.bin", "sub/metrics"}) {
    const std::string good = qrl::test::read_file(dir / "x" / name);
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      write_bytes(dir / "x" / name, bad);
      if (!verify_folder(dir / "x")) FAIL_CHECK(name << ": bit " << bit << " went unnoticed");
      ++flips;
    }
    write_bytes(dir / "x" / name, good);
  }
  CHECK(flips > 2000);
  CHECK(verify_folder(dir / "x") == std::nullopt);
}

TEST_CASE("checkpoint folder: files cut, longer, missing, or replaced by links are detected") {
  const qrl::test::TempDir dir;
  commit_folder(dir / "x", fill, "{}");
  const auto check_noticed = [&](const std::string& name) {
    const auto damage = verify_folder(dir / "x");
    REQUIRE(damage.has_value());
    CHECK(damage->find(name) != std::string::npos);
  };
  for (const std::string name : {"manifest.json", "weights.bin", "sub/metrics"}) {
    INFO(name);
    const std::string good = qrl::test::read_file(dir / "x" / name);
    for (std::size_t length = 0; length < good.size(); length += 7) {
      write_bytes(dir / "x" / name, good.substr(0, length));
      check_noticed(name);
    }
    write_bytes(dir / "x" / name, good + "\n");
    check_noticed(name);
    fs::remove(dir / "x" / name);
    check_noticed(name);
    write_bytes(dir / "elsewhere", good);
    fs::create_symlink(dir / "elsewhere", dir / "x" / name);
    if (name != "manifest.json") CHECK(verify_folder(dir / "x").has_value());
    fs::remove(dir / "x" / name);
    write_bytes(dir / "x" / name, good);
    CHECK(verify_folder(dir / "x") == std::nullopt);
  }
  CHECK(verify_folder(dir / "absent").has_value());
}

TEST_CASE("checkpoint folder: added files are listed, and are no damage") {
  const qrl::test::TempDir dir;
  commit_folder(dir / "x", fill, "{}");
  CHECK(listed_files(dir / "x") == std::vector<std::string>{"empty", "sub/metrics", "weights.bin"});
  CHECK(unlisted_files(dir / "x").empty());
  write_bytes(dir / "x/sub/more", "");
  fs::create_symlink("/absent", dir / "x/a link");
  REQUIRE(mkfifo((dir / "x/pipe").c_str(), 0600) == 0);
  fs::create_directories(dir / "x/new/empty");
  CHECK(unlisted_files(dir / "x") == std::vector<std::string>{"a link", "pipe", "sub/more"});
  CHECK(verify_folder(dir / "x") == std::nullopt);
}

TEST_CASE("checkpoint folder: nothing can be written into a committed one or a system file, by any path") {
  const qrl::test::TempDir dir;
  commit_folder(dir / "x", fill, "{}");
  fs::create_directory_symlink(dir / "x/sub", dir / "link");
  fs::create_directory(dir / "site");
  write_bytes(dir / "site/manifest.json",
              R"({"name": "a web page's manifest, of more than sixty bytes, is no checkpoint's"})");
  for (const fs::path& path :
       {dir / "x", dir / "x/new", dir / "x/sub/a/b", dir / "link/new", dir / "y/../x/new", fs::path("/proc/x"),
        fs::path("/dev/stdout"), fs::path("/sys/x"), fs::path("/tmp/../proc/x")}) {
    INFO(path);
    CHECK_THROWS_AS(require_place_for_output(path), base::Error);
  }
  fs::create_directory(dir / "run");
  write_bytes(dir / "run/config.yaml", "recipe of a run");
  for (const char* name : {"step_9", "sft_20", "step_9/x"})
    CHECK_THROWS_WITH(require_place_for_output(dir / "run/checkpoints" / name),
                      Catch::Contains("expected a name other than those of a run's checkpoints"));
  for (const fs::path& path :
       {dir / "run/checkpoints/hf", dir / "run/checkpoints/step_", dir / "run/step_9", dir / "checkpoints/step_9",
        dir / "y", dir / "site/new", fs::path("relative"), fs::path("/dev/shm/x"), fs::path("/process")}) {
    INFO(path);
    CHECK_NOTHROW(require_place_for_output(path));
  }
  write_bytes(dir / "x/manifest.json", "short");
  CHECK_NOTHROW(require_place_for_output(dir / "x/new"));
}

TEST_CASE("checkpoint folder: leftovers of saves are removed, everything else stays") {
  const qrl::test::TempDir dir;
  commit_folder(dir / "step_1", fill, "{}");
  fs::create_directory(dir / "step_2.tmp-0123456789abcdef");
  fill(dir / "step_2.tmp-0123456789abcdef");
  write_bytes(dir / "state.json.tmp-fedcba9876543210", "half");
  fs::create_directory(dir / "target");
  write_bytes(dir / "target/file", "keep");
  fs::create_directory_symlink(dir / "target", dir / "link.tmp-0000000000000000");
  for (const std::string kept :
       {"notes.tmp-1", "x.tmp-0123456789abcdeg", "step_3.tmp-0123456789abcdef.old", ".tmp-0123456789abcdef"}) {
    write_bytes(dir / kept, "mine");
  }
  remove_leftovers(dir.path());
  CHECK(num_entries(dir.path()) == 2 + 4);
  CHECK(verify_folder(dir / "step_1") == std::nullopt);
  CHECK(qrl::test::read_file(dir / "target/file") == "keep");  // a link is removed, not followed
}

TEST_CASE("small file: replaced whole") {
  const qrl::test::TempDir dir;
  replace_file(dir / "f", "one");
  replace_file(dir / "f", "two\n");
  CHECK(qrl::test::read_file(dir / "f") == "two\n");
  CHECK(num_entries(dir.path()) == 1);
  fs::create_directory(dir / "d");
  write_bytes(dir / "d/inside", "");
  CHECK_THROWS_AS(replace_file(dir / "d", "x"), base::Error);
  CHECK(num_entries(dir.path()) == 2);
}

TEST_CASE("run lock: a second run in the folder is refused, and a killed one leaves no lock") {
  const qrl::test::TempDir dir;
  {
    const FolderLock lock(dir.path());
    const pid_t child = fork();
    if (child == 0) {
      try {
        const FolderLock second(dir.path());
      } catch (const base::Error& error) {
        _exit(error.kind() == base::ErrorKind::input ? 42 : 1);
      }
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 42);
    CHECK_THROWS_AS(FolderLock(dir.path()), base::Error);
  }
  const FolderLock again(dir.path());
  CHECK_THROWS_AS(FolderLock(dir / "absent"), base::Error);
}

TEST_CASE("checkpoint folder: an unreadable one throws the system's error and is not damaged") {
  const qrl::test::TempDir dir;
  commit_folder(dir / "x", fill, "{}");
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const int next = dup(STDIN_FILENO);
  close(next);
  const rlimit few{static_cast<rlim_t>(next), before.rlim_max};  // no descriptor is left
  setrlimit(RLIMIT_NOFILE, &few);
  std::string message;
  int exit_code = 0;
  try {
    message = verify_folder(dir / "x").value_or("sound");
  } catch (const base::Error& error) {
    message = error.what();
    exit_code = error.exit_code();
  }
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK_THAT(message, Catch::Contains("Too many open files"));
  CHECK(exit_code == 1);
  CHECK(verify_folder(dir / "x") == std::nullopt);
}

TEST_CASE("run lock: after its file was deleted it is taken again, or refused if another run took it") {
  const qrl::test::TempDir dir;
  FolderLock lock(dir.path());
  fs::remove(dir / ".lock");
  lock.keep();
  CHECK_THROWS_WITH(FolderLock(dir.path()), Catch::Contains("a folder in use by another process"));
  fs::remove(dir / ".lock");
  const FolderLock other(dir.path());
  CHECK_THROWS_WITH(lock.keep(), Catch::Contains("a folder in use by another process"));
}
