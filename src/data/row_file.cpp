#include "data/row_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace qrl::data {

namespace {

constexpr std::size_t kStart_bytes = 32;  // enough for a Git LFS pointer

/// Returns the command that creates a shipped recipe's data file; "" for others.
std::string maker_of(const std::filesystem::path& file) {
  constexpr std::array<std::string_view, 4> kSets = {"gsm8k", "math", "dapo_math", "deepscaler"};
  const std::string set = file.parent_path().filename().string();
  const bool is_ours =
      file.parent_path().parent_path().filename() == "datasets" && std::ranges::find(kSets, set) != kSets.end();
  return is_ours ? "run python3 scripts/fetch/datasets.py " + set + " SOURCE to make it from a downloaded copy" : "";
}

}  // namespace

std::ifstream open_rows(const std::filesystem::path& file, const char* expected) {
  std::error_code error;
  const bool is_there = std::filesystem::exists(file, error);
  QRL_REQUIRE(std::filesystem::is_regular_file(file, error), file.string(), expected,
              is_there ? "not a regular file" : "no such file", is_there ? "" : maker_of(file));
  std::ifstream in(file, std::ios::binary);
  QRL_REQUIRE(in.is_open(), file.string(), "a readable file", "no permission to read it");
  std::string start(kStart_bytes, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  QRL_REQUIRE(!in.bad(), file.string(), "a readable file", std::strerror(errno));
  QRL_REQUIRE(!base::is_lfs_pointer(start), file.string(), expected, base::kLfsPointer);
  in.clear();
  in.seekg(0);
  return in;
}

}  // namespace qrl::data
