#include "reward/math/tree.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/ascii.h"

namespace qrl::reward::math {

NodeIdx Tree::make(Kind kind, const std::vector<Link>& of, std::string_view text) {
  Node node;
  node.kind = kind;
  node.text = text;
  node.first = static_cast<std::int32_t>(links.size());
  node.count = static_cast<std::int32_t>(of.size());
  for (const Link& link : of) {
    if (link.node < 0) return -1;
    node.depth = std::max(node.depth, at(link.node).depth + 1);
  }
  if (node.depth > kMaxTreeDepth) return -1;
  links.insert(links.end(), of.begin(), of.end());
  nodes.push_back(node);
  return static_cast<NodeIdx>(nodes.size() - 1);
}

constexpr std::string_view kUnknowns = "xyt", kNumberSet = "\\mathbb";

bool has_symbols(Ref at) noexcept {
  return any_node(at, [](Ref part) { return part.is(Kind::symbol) || part.is(Kind::words); });
}

bool has_symbol(Ref at, std::string_view name) noexcept {
  return any_node(at, [name](Ref part) { return part.is(Kind::symbol) && part->text == name; });
}

bool has_plus_minus(Ref at) noexcept {
  return any_node(at, [](Ref part) { return part.code == 'P' || part.code == 'M'; });
}

std::set<std::string> variables_of(Ref at) {
  if (at.is(Kind::subscript) || (at.is(Kind::symbol) && !is_number_set(at))) return {form_of(at)};
  std::set<std::string> all;
  for (const Ref part : at.parts()) all.merge(variables_of(part));
  return all;
}

bool is_digits(Ref at) noexcept {
  return at.is(Kind::number) && std::all_of(at->text.begin(), at->text.end(), base::is_digit);
}

std::optional<std::int64_t> integer_of(Ref at) noexcept {
  std::int64_t value = 0;
  if (!is_digits(at)) return std::nullopt;
  const auto [end, error] = std::from_chars(at->text.data(), at->text.data() + at->text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

bool is_capital(Ref at) noexcept { return at.is(Kind::symbol) && at->text.size() == 1 && at->text[0] <= 'Z'; }

bool is_product_of_factors(Ref at) noexcept {
  return at.is(Kind::product) &&
         std::ranges::all_of(at.parts(1), [](Ref part) { return part.code == '*' || part.code == '/'; });
}

bool is_number_set(Ref at) noexcept { return at.is(Kind::symbol) && at->text.starts_with(kNumberSet); }

Ref unsigned_of(Ref at) noexcept { return at.is(Kind::sum) && at->count == 1 ? at[0] : at; }

bool is_name(Ref at) noexcept {
  switch (at->kind) {
    case Kind::symbol:
    case Kind::words:
    case Kind::call:
    case Kind::prime:
    case Kind::subscript:
      return true;
    case Kind::absolute:  // |x| = 4 is to be solved
      if (at[0].is(Kind::symbol)) return kUnknowns.find(at[0]->text) == std::string_view::npos;
      [[fallthrough]];
    case Kind::product:  // 2x is none
    case Kind::ratio:
    case Kind::tuple:
    case Kind::list:
    case Kind::determinant:
    case Kind::set_operation:
      return std::ranges::all_of(at.parts(),
                                 [at](Ref part) { return has_symbols(part) ? is_name(part) : !at.is(Kind::product); });
    default:
      return false;
  }
}

std::optional<Ref> modulus_of(Ref at) noexcept {
  if (at.is(Kind::relation)) at = at[at->count - 1];
  const bool modular = at.is(Kind::product) && at->count == 2 && at[1].code == 'm';
  return modular ? std::optional(at[1]) : std::nullopt;
}

char reversed(char code) noexcept {
  constexpr std::string_view kOrders = "<>lg", kReversed = "><gl";
  const std::size_t at = kOrders.find(code);
  return at == std::string_view::npos ? code : kReversed[at];
}

std::string form_of(Ref at) {
  std::string form = std::to_string(static_cast<int>(at->kind)) + ':' + std::string(at->text);
  const bool any_order = at.is(Kind::sum) || at.is(Kind::product) || at.is(Kind::set) || at.is(Kind::list);
  const char first = at.is(Kind::sum) ? '+' : at.is(Kind::product) ? '*' : '\0';
  std::vector<std::string> parts;
  for (const Ref part : at.parts()) parts.push_back((part.code != 0 ? part.code : first) + form_of(part));
  if (any_order) std::ranges::sort(parts);
  for (const std::string& part : parts) (form += '(') += part + ')';
  return form;
}

std::string text_key(std::string_view text, const Vocabulary& vocabulary) {
  std::string key;
  for (std::size_t k = 0; k < text.size(); ++k) {
    const char c = text[k];
    if (c == '\\') {
      const std::size_t begin = k + 1;
      while (k + 1 < text.size() && base::is_letter(text[k + 1])) ++k;
      const std::string_view name = text.substr(begin, k + 1 - begin);
      const Meaning* meaning = vocabulary.command(name);
      const bool layout =
          meaning != nullptr && (meaning->type == TokenType::wrapper || meaning->type == TokenType::layout);
      if (!layout) key += name;  // the root of "odd" is not "odd"
      continue;
    }
    const bool before_digit = k + 1 < text.size() && base::is_digit(text[k + 1]);
    const bool behind_letter = k > 0 && base::is_letter(text[k - 1]);
    // Figure-3 is Figure 3; 3.5 is not 35, -3 not 3.
    if (before_digit && std::string_view(".-+/:^").find(c) != std::string_view::npos && !behind_letter) key += c;
    if (base::is_letter(c)) key += static_cast<char>(c | 32);
    else if (base::is_digit(c) || static_cast<unsigned char>(c) >= 0x80) key += c;
  }
  return key;
}

}  // namespace qrl::reward::math
