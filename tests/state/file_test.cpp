// Tests paths that users name for output, and files that are not tensor files.
#include "state/file.h"

#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "state/folder.h"
#include "state/safetensors.h"
#include "support/catch.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

/// Returns the input error that `call` throws, or "accepted".
template <class Call>
std::string call_refusal(const Call& call) {
  try {
    call();
    return "accepted";
  } catch (const base::Error& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
}

bool holds(const std::string& text, const std::string& part) {
  UNSCOPED_INFO(text);
  return text.find(part) != std::string::npos;
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("write file: a pipe is never replaced") {
  const test::TempDir dir;
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);
  fs::create_symlink("pipe", dir / "link");
  for (const char* name : {"pipe", "link"}) {
    const std::string message = call_refusal([&] { state::replace_file(dir / name, "x"); });
    CHECK(holds(message, (dir / name).string() + ": expected a new or regular file to write, got a device or pipe"));
    CHECK(fs::is_fifo(fs::symlink_status(dir / "pipe")));
    CHECK(fs::is_symlink(fs::symlink_status(dir / "link")));
  }
}

TEST_CASE("write file: a link stays a link, and its target is replaced") {
  const test::TempDir dir;
  fs::create_directory(dir / "sub");
  std::ofstream(dir / "sub" / "real") << "old";
  fs::create_symlink("sub/real", dir / "link");
  state::replace_file(dir / "link", "new");
  CHECK(fs::is_symlink(fs::symlink_status(dir / "link")));
  CHECK(bytes_of(dir / "sub" / "real") == "new");
  fs::create_symlink("nowhere", dir / "dangling");
  CHECK(holds(call_refusal([&] { state::replace_file(dir / "dangling", "x"); }), "a broken link"));
}

TEST_CASE("write file: failures name the path given by the user") {
  const test::TempDir dir;
  fs::create_directory(dir / "sub");
  CHECK(holds(call_refusal([&] { state::replace_file(dir / "none" / "x", "x"); }),
              (dir / "none/x").string() + ": expected"));
  CHECK(holds(call_refusal([&] { state::replace_file(dir / "sub", "x"); }),
              (dir / "sub").string() + ": expected a file"));
  CHECK(holds(call_refusal([&] { state::output_file(dir.path() / "new" / ""); }), "a path without a file name"));
  CHECK(state::output_file(dir / "new") == dir / "new");
  CHECK(state::output_file("new") == "new");
}

TEST_CASE("read file: files of other formats are named") {
  const test::TempDir dir;
  const std::vector<std::pair<std::string, std::string>> files = {
      {"PK\x03\x04" + std::string(60, 'z'), "got a zip archive, as torch.save writes"},
      {"\x80\x02}q" + std::string(60, 'z'), "got a Python pickle"},
      {"\x80\x04\x95" + std::string(60, 'z'), "got a Python pickle"},
      {std::string("GGUF\3\0\0\0", 8) + std::string(60, '\0'), "got a GGUF file"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "got a Git LFS pointer"},
      {"<!doctype html><html></html>", "got an HTML or XML page"},
      {"{\"weight_map\": {}}", "got JSON text"},
      {std::string("\x80\2\0\0\0\0\0\0", 8) + std::string(640, ' '), "got a Python pickle"},
      {std::string(64, '\xee'), "a header length of at most 100 MB"},
  };
  for (const auto& [bytes, reason] : files) {
    std::ofstream(dir / "t", std::ios::binary) << bytes;
    CHECK(holds(call_refusal([&] { state::describe_safetensors(dir / "t"); }), reason));
  }
  std::ofstream(dir / "t") << "version https://git-lfs.github.com/spec/v1\noid sha256:00\n";
  CHECK(
      holds(call_refusal([&] { state::read_text(dir / "t", 1000); }), "got a Git LFS pointer; fetch the file itself"));
  // A length of 640 begins with a pickle's first bytes: the header decides.
  std::ofstream(dir / "t", std::ios::binary) << std::string("\x80\2\0\0\0\0\0\0", 8) << "{}" << std::string(638, ' ');
  CHECK(call_refusal([&] { state::describe_safetensors(dir / "t"); }) == "accepted");
}

TEST_CASE("write file: files and folders have the umask's permissions") {
  const test::TempDir dir;
  const auto mode = [](const fs::path& path) { return static_cast<int>(fs::status(path).permissions()); };
  const auto fill = [](const fs::path& folder) { state::File::create(folder / "file").write("x"); };
  for (const int mask : {0002, 0022, 0077}) {
    const mode_t before = umask(static_cast<mode_t>(mask));
    const std::string name = "a" + std::to_string(mask);
    state::commit_folder(dir / name, fill, "{}");
    state::replace_file(dir / (name + "_file"), "x");
    const state::FolderLock lock(dir / name);
    umask(before);
    CHECK(mode(dir / name) == (0777 & ~mask));
    for (const fs::path& file :
         {dir / name / "file", dir / name / "manifest.json", dir / name / ".lock", dir / (name + "_file")})
      CHECK(mode(file) == (0666 & ~mask));
  }
}

TEST_CASE("read file: pipes and devices are refused unopened, and absent files differ from failing ones") {
  const test::TempDir dir;
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);
  fs::create_symlink("pipe", dir / "link");
  fs::create_symlink("/dev/zero", dir / "zero");
  for (const char* name : {"pipe", "link", "zero"}) {
    CHECK(holds(call_refusal([&] { state::require_no_special_file(dir / name); }),
                "a regular file, got a device or pipe"));
    CHECK(holds(call_refusal([&] { (void)state::File::open(dir / name); }), "a regular file, got a device or pipe"));
  }
  CHECK_NOTHROW(state::require_no_special_file(dir / "none"));
  CHECK(holds(call_refusal([&] { state::FolderLock lock(fs::path(dir / "")); }), "accepted"));
  CHECK_FALSE(state::File::open_if_there(dir / "none"));
  CHECK_FALSE(state::File::open_if_there(dir / "pipe" / "below"));
  CHECK_FALSE(state::File::open_if_there(dir / "zero"));
}
