// Fuzzes generation_config.json: accepted end tokens are in the vocabulary.
#include "model/config.h"
#include "target.h"

using namespace qrl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t num_bytes) {
  constexpr std::int64_t kVocabulary = 151936;
  fuzz::accepts([&] {
    const auto eos = model::parse_generation_eos(fuzz::text_of(data, num_bytes), "generation_config.json", kVocabulary);
    for (const types::TokenId id : eos.value_or(std::vector<types::TokenId>{})) {
      fuzz::require(id >= 0 && id < kVocabulary, "an end token is one of the vocabulary");
    }
  });
  return 0;
}
