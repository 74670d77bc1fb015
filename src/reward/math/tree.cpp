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

bool has_symbols(const Tree& tree, NodeIdx idx) noexcept {
  return any_node(tree, idx, [](const Node& node) { return node.kind == Kind::symbol || node.kind == Kind::words; });
}

bool has_symbol(const Tree& tree, NodeIdx idx, std::string_view name) noexcept {
  return any_node(tree, idx, [name](const Node& node) { return node.kind == Kind::symbol && node.text == name; });
}

bool has_plus_minus(const Tree& tree, NodeIdx idx) noexcept {
  return any_node(tree, idx, [&tree](const Node& node) {
    return node.kind == Kind::sum &&
           std::ranges::any_of(tree.of(node), [](Link link) { return link.code == 'P' || link.code == 'M'; });
  });
}

std::set<std::string> variables_of(const Tree& tree, NodeIdx idx) {
  const Node& node = tree.at(idx);
  if (node.kind == Kind::subscript || (node.kind == Kind::symbol && !is_number_set(node))) return {form_of(tree, idx)};
  std::set<std::string> all;
  for (const Link link : tree.of(node)) all.merge(variables_of(tree, link.node));
  return all;
}

bool is_digits(const Node& node) noexcept {
  return node.kind == Kind::number && std::all_of(node.text.begin(), node.text.end(), base::is_digit);
}

std::optional<std::int64_t> integer_of(const Node& node) noexcept {
  std::int64_t value = 0;
  if (!is_digits(node)) return std::nullopt;
  const auto [end, error] = std::from_chars(node.text.data(), node.text.data() + node.text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

bool is_capital(const Node& node) noexcept {
  return node.kind == Kind::symbol && node.text.size() == 1 && node.text[0] <= 'Z';
}

bool is_product_of_factors(const Tree& tree, const Node& node) noexcept {
  return node.kind == Kind::product && std::ranges::all_of(tree.of(node), [](Link link) {
           return link.code == 0 || link.code == '*' || link.code == '/';
         });
}

bool is_number_set(const Node& node) noexcept { return node.kind == Kind::symbol && node.text.starts_with(kNumberSet); }

const Node& unsigned_of(const Tree& tree, const Node& node) noexcept {
  return node.kind == Kind::sum && node.count == 1 ? tree.child_at(node, 0) : node;
}

bool is_name(const Tree& tree, NodeIdx idx) noexcept {
  const Node& node = tree.at(idx);
  switch (node.kind) {
    case Kind::symbol:
    case Kind::words:
    case Kind::call:
    case Kind::prime:
    case Kind::subscript:
      return true;
    case Kind::product:
    case Kind::ratio:
    case Kind::tuple:
    case Kind::list:
    case Kind::absolute:
    case Kind::determinant:
    case Kind::set_operation:
      return std::ranges::all_of(tree.of(node), [&](Link link) {
        const bool symbols = has_symbols(tree, link.node);
        if (node.kind == Kind::product && !symbols) return false;  // 2x is none
        return (!symbols || is_name(tree, link.node)) &&
               (node.kind != Kind::absolute || tree.at(link.node).kind != Kind::symbol ||
                kUnknowns.find(tree.at(link.node).text) == std::string_view::npos);
      });  // |x| = 4 is to be solved
    default:
      return false;
  }
}

NodeIdx modulus_of(const Tree& tree, NodeIdx idx) noexcept {
  const Node* node = &tree.at(idx);
  if (node->kind == Kind::relation) node = &tree.child_at(*node, node->count - 1);
  const bool modular = node->kind == Kind::product && node->count == 2 && tree.link(*node, 1).code == 'm';
  return modular ? tree.child(*node, 1) : -1;
}

char reversed(char code) noexcept {
  constexpr std::string_view kOrders = "<>lg", kReversed = "><gl";
  const std::size_t at = kOrders.find(code);
  return at == std::string_view::npos ? code : kReversed[at];
}

std::string form_of(const Tree& tree, NodeIdx idx) {
  const Node& node = tree.at(idx);
  std::string form = std::to_string(static_cast<int>(node.kind)) + ':' + std::string(node.text);
  std::vector<std::string> parts;
  for (auto [child, code] : tree.of(node)) {
    if (code == 0 && (node.kind == Kind::sum || node.kind == Kind::product)) code = node.kind == Kind::sum ? '+' : '*';
    parts.push_back(code + form_of(tree, child));
  }
  if (node.kind == Kind::sum || node.kind == Kind::product || node.kind == Kind::set || node.kind == Kind::list)
    std::sort(parts.begin(), parts.end());
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
