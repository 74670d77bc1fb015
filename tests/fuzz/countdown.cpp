// Fuzzes the countdown verifier with any gold answer (first line) and any response; the judged answer is a part of the
// response.
#include "reward/answer.h"
#include "target.h"

using namespace qrl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t num_bytes) {
  static const auto verifier = fuzz::verifier_named("countdown");
  const std::string_view text = fuzz::text_of(data, num_bytes);
  fuzz::judge(*verifier, text);
  if (const auto answer = reward::extract_answer(text); answer && !answer->text.empty()) {
    const char* begin = answer->text.data();
    fuzz::require(begin >= text.data() && begin + answer->text.size() <= text.data() + text.size(),
                  "an answer lies in its response");
  }
  return 0;
}
