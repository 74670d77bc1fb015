#include "reward/math/tree.h"

#include <algorithm>
#include <charconv>

namespace qrl::reward::math {

Node::Node(Kind of, std::vector<Node> its_parts) : kind(of), parts(std::move(its_parts)) {
  for (const Node& part : parts) depth = std::max(depth, part.depth + 1);
  if (depth > kMaxTreeDepth) throw Unreadable{Fault::kOperandMissing};
}

constexpr std::string_view kUnknowns = "xyt";

std::set<std::string> variables_of(const Node& at) {
  if (at.is(Kind::subscript) || (at.is(Kind::symbol) && !is_number_set(at))) return {form_of(at)};
  std::set<std::string> all;
  for (const Node& part : at.parts) all.merge(variables_of(part));
  return all;
}

std::optional<std::int64_t> integer_of(const Node& at) noexcept {
  std::int64_t value = 0;
  if (!is_digits(at)) return std::nullopt;
  const auto [end, error] = std::from_chars(at.text.data(), at.text.data() + at.text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

std::string_view letters_in_a_row(std::span<const Node> factors) noexcept {
  std::string_view row;
  for (const Node& factor : factors) {
    const bool next = row.empty() || factor.text.data() == row.data() + row.size();
    if (factor.text.size() != 1 || !next) return {};
    row = {row.empty() ? factor.text.data() : row.data(), row.size() + 1};
  }
  return row;
}

std::size_t places_of(const Node& at) noexcept {
  const std::string_view text = unsigned_of(at).text;
  const std::size_t point = text.find('.');
  const bool decimal = unsigned_of(at).is(Kind::number) && text.find_first_of("e(") == std::string_view::npos;
  return decimal && point != std::string_view::npos ? text.size() - point - 1 : 0;
}

bool is_name(const Node& at) noexcept {
  if (at.is(Kind::symbol, Kind::words, Kind::call, Kind::prime, Kind::subscript)) return true;
  if (at.is(Kind::absolute) && at[0].is(Kind::symbol))
    return kUnknowns.find(at[0].text) == std::string_view::npos;  // "|x| = 4" is an equation to solve
  const bool product = at.is(Kind::product);                      // 2x is no name
  return (product || at.is(Kind::absolute, Kind::ratio, Kind::tuple, Kind::list, Kind::set_operation)) &&
         std::ranges::all_of(at.parts, [&](const Node& part) { return has_symbols(part) ? is_name(part) : !product; });
}

const Node* modulus_of(const Node& at) noexcept {
  if (at.is(Kind::relation)) return modulus_of(at.parts.back());
  const bool modular = at.is(Kind::product) && at.parts.size() == 2 && at[1].joint == 'm';
  return modular ? &at[1] : nullptr;
}

char reversed(char code) noexcept {
  constexpr std::string_view kCodes = "<>lg=acnGHJ", kReversed = "><gl=acnGHJ";
  const std::size_t at = kCodes.find(code);
  return at == std::string_view::npos ? '\0' : kReversed[at];
}

std::string form_of(const Node& at) {
  std::string form = std::to_string(static_cast<int>(at.kind)) + ':';
  if (at.is(Kind::constant)) form += at.code;
  else form += at.text;
  const bool any_order = at.is(Kind::sum, Kind::product, Kind::set, Kind::list);
  const char first = at.is(Kind::sum) ? '+' : at.is(Kind::product) ? '*' : '\0';
  std::vector<std::string> parts;
  for (const Node& part : at.parts) parts.push_back((part.joint != 0 ? part.joint : first) + form_of(part));
  if (any_order) std::ranges::sort(parts);
  for (const std::string& part : parts) (form += '(') += part + ')';
  return form;
}

std::string text_key(std::string_view text, const Vocabulary& vocabulary) {
  std::string key;
  for (std::size_t k = 0; k < text.size(); ++k) {
    const char c = text[k];
    if (c == '\\') {
      const std::string_view name = letters_of(text.substr(k + 1));
      const Meaning* meaning = vocabulary.command(name);
      const bool layout =
          meaning != nullptr && (meaning->type == TokenType::wrapper || meaning->type == TokenType::layout);
      if (!layout) key += name;  // \sqrt{odd} is not "odd"
      k += name.size();
      continue;
    }
    const bool before_digit = k + 1 < text.size() && base::is_digit(text[k + 1]);
    // Signs and points may change a number: 3.5 is not 35, and -3 not 3.
    if (has("+/^=<>|", c) || (c == '-' && k == 0) || (has(".-:", c) && before_digit)) key += c;
    else if (base::is_letter(c) || base::is_digit(c) || static_cast<unsigned char>(c) >= 0x80) key += base::lower(c);
  }
  return key;
}

}  // namespace qrl::reward::math
