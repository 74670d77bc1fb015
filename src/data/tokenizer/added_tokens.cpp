#include "data/tokenizer/added_tokens.h"

#include <algorithm>

#include "data/tokenizer/unicode.h"

namespace qrl::data {

namespace {

unsigned char first_byte(const AddedToken& token) { return static_cast<unsigned char>(token.text.front()); }

bool is_white_space(std::string_view text) { return leading_space_bytes(text) == text.size(); }

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::stable_sort(tokens_, [](const AddedToken& a, const AddedToken& b) {
    return first_byte(a) != first_byte(b) ? first_byte(a) < first_byte(b) : a.text.size() > b.text.size();
  });
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto first = std::ranges::find_if(tokens_, [&](const auto& t) { return first_byte(t) >= byte; });
    first_of_byte_[byte] = static_cast<std::size_t>(first - tokens_.begin());
  }
  first_of_byte_[256] = tokens_.size();
}

const AddedToken* AddedTokens::match(std::string_view text, std::size_t at, std::size_t trusted_end) const {
  const auto byte = static_cast<unsigned char>(text[at]);
  for (std::size_t i = first_of_byte_[byte]; i < first_of_byte_[byte + 1U]; ++i) {
    const AddedToken& token = tokens_[i];
    if (text.compare(at, token.text.size(), token.text) != 0) continue;
    if (at + token.text.size() <= trusted_end || is_white_space(token.text)) return &token;
  }
  return nullptr;
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, const std::vector<TextRange>& trusted) const {
  std::vector<Part> parts;
  std::size_t done = 0;
  auto range = trusted.begin();
  for (std::size_t at = tokens_.empty() ? text.size() : 0; at < text.size();) {
    while (range != trusted.end() && range->end <= at) ++range;
    const bool is_trusted = range != trusted.end() && range->begin <= at;
    const AddedToken* token = match(text, at, is_trusted ? range->end : 0);
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + token->text.size();
    at = end;
    if (token->single_word && (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end)))) continue;
    if (token->lstrip) begin = std::max(begin - trailing_space_bytes(text.substr(0, begin)), done);
    if (token->rstrip) end += leading_space_bytes(text.substr(end));
    if (done < begin) parts.push_back({{done, begin}, -1});
    parts.push_back({{begin, end}, token->id});
    done = end;
  }
  if (done < text.size()) parts.push_back({{done, text.size()}, -1});
  return parts;
}

}  // namespace qrl::data
