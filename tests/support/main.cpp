#define CATCH_CONFIG_RUNNER
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include "base/process.h"
#include "support/catch.h"

namespace qrl::test {

namespace {
int g_skipped = 0;
}

void skip(const std::string& reason) {
  ++g_skipped;
  std::fprintf(stderr, "SKIPPED: %s\n", reason.c_str());
}

std::optional<std::filesystem::path> shared_data() {
  const char* set = std::getenv("QRL_TEST_DATA");
  const std::filesystem::path dir = set != nullptr ? set : QRL_SOURCE_DIR "/../shared/data";
  if (std::filesystem::is_directory(dir)) return dir;
  return std::nullopt;
}

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "qrl-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace qrl::test

int main(int argc, char** argv) {
  qrl::base::skip_library_destructors();
  const int result = Catch::Session().run(argc, argv);
  // Catch returns the number of failed assertions, and four of them would look like a skip.
  if (result != 0) return 1;
  return qrl::test::g_skipped > 0 ? 4 : 0;
}
