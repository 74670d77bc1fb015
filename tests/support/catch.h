// Includes Catch2 2 or 3 and the helpers of every test.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>

namespace qrl::test {

/// Marks the running case as skipped, with its reason; `return` immediately after it. The program exits 4 if a case was
/// skipped and none failed, which ctest counts as skipped.
void skip(const std::string& reason);

/// Returns ../shared/data, or QRL_TEST_DATA; nothing if the folder is missing.
std::optional<std::filesystem::path> shared_data();

/// Returns tests/data of this checkout.
inline std::filesystem::path shipped_data() { return std::filesystem::path(QRL_SOURCE_DIR) / "tests" / "data"; }

/// Creates an empty folder; the destructor removes it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Returns true only if |got − want| ≤ absolute + relative·|want|. NaN on either side never passes; equal infinities
/// do.
inline bool close(double got, double want, double absolute, double relative) {
  return got == want || std::fabs(got - want) <= absolute + relative * std::fabs(want);
}

}  // namespace qrl::test
