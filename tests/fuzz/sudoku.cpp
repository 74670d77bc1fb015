// Fuzzes the sudoku verifier with any gold answer (first line) and any response.
#include "target.h"

using namespace qrl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t num_bytes) {
  static const auto verifier = fuzz::verifier_named("sudoku");
  fuzz::judge(*verifier, fuzz::text_of(data, num_bytes));
  return 0;
}
