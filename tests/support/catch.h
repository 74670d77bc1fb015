// Catch2 2 and 3 under one include, and what every test shares.
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

/// Marks the running case as skipped, with its reason; `return` right after it. The program exits 4 when a case was
/// skipped and none failed, which ctest counts as skipped.
void skip(const std::string& reason);

/// ../shared/data, or QRL_TEST_DATA; nothing when the folder is missing.
std::optional<std::filesystem::path> shared_data();

/// tests/data of this checkout.
inline std::filesystem::path shipped_data() { return std::filesystem::path(QRL_SOURCE_DIR) / "tests" / "data"; }

/// A fresh empty folder, removed with the object.
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

/// True only when |got − want| ≤ absolute + relative·|want|: NaN on either side never passes, equal infinities do.
inline bool close(double got, double want, double absolute, double relative) {
  return got == want || std::fabs(got - want) <= absolute + relative * std::fabs(want);
}

}  // namespace qrl::test
