#include "data/tokenizer.h"

#include <algorithm>

#include "data/byte_alphabet.h"

namespace qrl::data {

using types::TokenId;

Tokenizer Tokenizer::byte_level() {
  Tokenizer tokenizer;
  for (int byte = 0; byte < 256; ++byte) {
    tokenizer.byte_to_id_.push_back(byte);
    tokenizer.vocab_.push_back(byte_spelling(static_cast<unsigned char>(byte)));
    tokenizer.id_to_bytes_.emplace_back(1, static_cast<char>(byte));
  }
  tokenizer.added_ = {{"<|endoftext|>", 256, true}, {"</answer>", 258, false}, {"<answer>", 257, false}};
  tokenizer.id_to_bytes_.insert(tokenizer.id_to_bytes_.end(), {"", "<answer>", "</answer>"});
  tokenizer.eos_ = 256;
  return tokenizer;
}

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
  std::vector<TokenId> tokens;
  tokens.reserve(text.size());
  for (const char c : text) tokens.push_back(byte_to_id_[static_cast<unsigned char>(c)]);
  return tokens;
}

std::vector<TokenId> Tokenizer::encode_trusted(std::string_view text) const {
  std::vector<TokenId> tokens;
  tokens.reserve(text.size());
  while (!text.empty()) {
    const auto added =
        std::find_if(added_.begin(), added_.end(), [&](const Added& a) { return text.starts_with(a.text); });
    if (added != added_.end()) {
      tokens.push_back(added->id);
      text.remove_prefix(added->text.size());
    } else {
      tokens.push_back(byte_to_id_[static_cast<unsigned char>(text.front())]);
      text.remove_prefix(1);
    }
  }
  return tokens;
}

std::string Tokenizer::decode(std::span<const TokenId> tokens) const {
  std::string text;
  for (const TokenId id : tokens) {
    if (id >= 0 && id < vocab_size()) text += id_to_bytes_[static_cast<std::size_t>(id)];
  }
  return text;
}

}  // namespace qrl::data
