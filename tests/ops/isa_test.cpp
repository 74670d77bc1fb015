#include "ops/isa.h"

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "ops/reference.h"

using namespace qrl;

// Hidden: the case below runs it in a fresh process, since the environment is read once. Fails where QRL_ISA throws.
TEST_CASE("QRL_ISA: the forced path is in use", "[.]") {
  CHECK(std::string(ops::name(ops::isa())) == std::getenv("QRL_ISA"));
}

namespace {

/// Runs the probe with this QRL_ISA; returns whether it passed.
bool probe_passes(const std::string& value) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command =
      "QRL_ISA='" + value + "' '" + program + "' 'QRL_ISA: the forced path is in use' > /dev/null 2>&1";
  return std::system(command.c_str()) == 0;
}

}  // namespace

TEST_CASE("QRL_ISA: forces a path that the processor has and refuses any other") {
  for (const ops::Isa isa : {ops::Isa::amx, ops::Isa::avx512, ops::Isa::avx2, ops::Isa::portable}) {
    CHECK(probe_passes(std::string(ops::name(isa))) == ops::supported(isa));
  }
  CHECK_FALSE(probe_passes("sse2"));
  CHECK_FALSE(probe_passes(""));
}

TEST_CASE("kernel paths: portable always exists, and the description begins with the path in use") {
  CHECK(ops::supported(ops::Isa::portable));
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  CHECK(ops::describe_isa().rfind(std::string(ops::name(ops::isa())) + " (of ", 0) == 0);
}
