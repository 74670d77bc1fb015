// Fuzzes the math verifier with any gold answer (first line) and any response; every profile finds an answer or none.
#include <algorithm>

#include "reward/math/extract.h"
#include "reward/math/lexer.h"
#include "target.h"

using namespace qrl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t num_bytes) {
  static const auto verifier = fuzz::verifier_named("math");
  const std::string_view text = fuzz::text_of(data, num_bytes);
  fuzz::judge(*verifier, text);
  // Signs may be spelled out: ¾ becomes \frac{3}{4}.
  const std::size_t longest = std::max(text.size(), reward::math::normalized(text).size());
  using reward::math::Profile;
  for (const Profile profile : {Profile::automatic, Profile::boxed, Profile::gsm8k, Profile::answer_is,
                                Profile::answer_tag, Profile::text, Profile::last_number}) {
    for (const auto& candidate : reward::math::extract(text, profile))
      fuzz::require(candidate.size() <= longest, "an answer is no longer than its response");
  }
  return 0;
}
