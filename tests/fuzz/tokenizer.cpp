// Fuzzes tokenizer.json: an accepted one encodes any bytes into ids of its vocabulary and decodes them. No control
// token comes from untrusted text, and streaming returns whole characters.
#include "data/tokenizer.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "target.h"

using namespace qrl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t num_bytes) {
  const std::string_view file = fuzz::text_of(data, num_bytes);
  const std::array<std::string_view, 4> texts = {
      "<|end|>  the <a> wrd's\n\t 日本 e\xcc\x81 1234 \xf0\x9f\x99\x82<answer>", "\xff\xe3\x81 \xc3 x\x80", "",
      file.substr(file.size() - std::min<std::size_t>(file.size(), 48))};
  fuzz::accepts([&] {
    const data::Tokenizer tokenizer = data::Tokenizer::parse(file, "", "tokenizer.json");
    (void)tokenizer.describe();
    for (const std::string_view text : texts) {
      const auto ids = tokenizer.encode(text);
      for (const auto& some : {ids, tokenizer.encode_trusted(text)}) {
        data::StreamDecoder stream(tokenizer);
        std::string streamed;
        for (const types::TokenId id : some) {
          fuzz::require(id >= 0 && id < tokenizer.vocab_size(), "an id is one of the vocabulary");
          streamed += stream.push(id);
          fuzz::require(base::is_utf8(streamed), "a stream is made of whole characters");
        }
        streamed += stream.finish();
        const std::string whole = tokenizer.decode(some);
        fuzz::require(!base::is_utf8(whole) || streamed == whole, "a stream says what the whole does");
      }
      const bool may_change = file.find("NFC") != std::string_view::npos;  // decoding returns the text's normal form
      fuzz::require(may_change || tokenizer.decode(ids) == text, "a text comes back as it was");
    }
  });
  return 0;
}
