#include "config/yaml/scalars.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <regex>
#include <system_error>

#include "base/ascii.h"
#include "base/text.h"

namespace qrl::config {

namespace {

/// Limits a number's length, because std::regex recurses for each character.
constexpr std::size_t kLongestNumber = 400;

bool matches(std::string_view text, const std::regex& pattern) {
  return text.size() <= kLongestNumber && std::regex_match(text.begin(), text.end(), pattern);
}

const std::regex kIntegerForm("[-+]?[0-9]+");
const std::regex kRealForm("[-+]?(\\.[0-9]+|[0-9]+(\\.[0-9]*)?)([eE][-+]?[0-9]+)?");
const std::pair<std::regex, const char*> kTraps[] = {
    {std::regex("[-+]?0[0-9_]+(\\.[0-9_]*)?([eE][-+]?[0-9]+)?"),
     "a leading zero means octal in YAML 1.1 and nothing in 1.2: remove it"},
    {std::regex("[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\\.[0-9_]*)?"),
     "colons mean base 60 in YAML 1.1: write one decimal number"},
    {std::regex("[-+]?0[xob][0-9a-fA-F_]+"), "write it in decimal"},
    {std::regex("[-+]?\\.?(inf|nan|infinity)", std::regex::icase), "write a finite number"},
    {std::regex("(?=.*_)[-+]?[0-9][0-9_]*(\\.[0-9_]*)?([eE][-+]?[0-9]+)?"), "write it without underscores"}};

/// Returns whether the text is one of the words, ignoring case. `words` has a space around each.
bool is_one_of(std::string_view text, std::string_view words) {
  return text.find(' ') == std::string_view::npos &&
         words.find(" " + base::lower_case(text) + " ") != std::string_view::npos;
}

std::string number_trap(std::string_view text) {
  const auto* trap =
      std::find_if(std::begin(kTraps), std::end(kTraps), [&](const auto& one) { return matches(text, one.first); });
  return trap == std::end(kTraps) ? "" : trap->second;
}

/// Returns a scalar's text without "+". Throws ParseError if it does not match `form`.
std::string_view number_text(const YamlNode& node, const std::regex& form, const std::string& otherwise) {
  if (node.kind != YamlNode::Kind::scalar) throw ParseError{shown_value(node)};
  const std::string_view text = node.text;
  if (node.quoted) throw ParseError{"the text " + base::quoted(text), matches(text, form) ? "remove the quotes" : ""};
  const std::string trap = number_trap(text);
  if (!trap.empty()) throw ParseError{base::quoted(text), trap};
  if (!matches(text, form)) throw ParseError{base::quoted(text), matches(text, kRealForm) ? otherwise : ""};
  return text.substr(text.front() == '+' ? 1 : 0);
}

template <class T>
T read_whole(const YamlNode& node, const char* too_far) {
  const std::string_view text = number_text(node, kIntegerForm, "write an integer without a decimal point or exponent");
  T value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
    throw ParseError{base::quoted(node.text), too_far};
  return value;
}

/// Returns the code point at `pos` of valid UTF-8, and its length in bytes.
std::pair<std::uint32_t, std::size_t> code_point(std::string_view text, std::size_t pos) {
  const auto lead = static_cast<unsigned char>(text[pos]);
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  std::uint32_t code = length == 1 ? lead : lead & (0x7fU >> length);
  for (std::size_t k = 1; k < length && pos + k < text.size(); ++k) {
    code = (code << 6) | (static_cast<unsigned char>(text[pos + k]) & 0x3fU);
  }
  return {code, length};
}

}  // namespace

std::string shown_value(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar) return base::quoted(node.text);
  if (node.kind == YamlNode::Kind::null) return "null";
  return node.kind == YamlNode::Kind::sequence ? "a list" : "a section";
}

std::int64_t read_integer(const YamlNode& node) { return read_whole<std::int64_t>(node, "it does not fit in 64 bits"); }

std::uint64_t read_unsigned(const YamlNode& node) {
  return read_whole<std::uint64_t>(node, "it is below 0 or does not fit in 64 bits");
}

double read_real(const YamlNode& node) {
  const std::string_view text = number_text(node, kRealForm, "");
  double value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
    throw ParseError{base::quoted(node.text), "it is too large or too small for a double"};
  return value == 0 ? 0.0 : value;
}

bool read_boolean(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::scalar) throw ParseError{shown_value(node)};
  if (node.quoted) {
    throw ParseError{"the text " + base::quoted(node.text),
                     node.text == "true" || node.text == "false" ? "remove the quotes" : ""};
  }
  if (node.text == "true") return true;
  if (node.text == "false") return false;
  const bool yes = is_one_of(node.text, " true yes on y 1 ");
  const bool no = is_one_of(node.text, " false no off n 0 ");
  throw ParseError{base::quoted(node.text), yes ? "write true" : no ? "write false" : ""};
}

std::string read_text(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::scalar) throw ParseError{shown_value(node)};
  const std::string& text = node.text;
  if (text.empty()) throw ParseError{"an empty text", "leave the key out instead"};
  if (text.find('\0') != std::string::npos) throw ParseError{base::quoted(text), "delete the NUL"};
  if (!node.quoted) {
    const char* reading = is_one_of(text, " true false yes no on off y n ")        ? "a boolean"
                          : matches(text, kRealForm) || !number_trap(text).empty() ? "a number"
                                                                                   : nullptr;
    if (reading != nullptr) {
      throw ParseError{"the bare word " + text,
                       "some YAML readers take it for " + std::string(reading) + ": write \"" + text + "\" in quotes"};
    }
  }
  return text;
}

std::string write_real(double value) {
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  if (error != std::errc()) return "0.0";
  std::string text(buffer.data(), end);
  const std::size_t exponent = std::min(text.find('e'), text.size());
  // "1e-06" → "1.0e-6": YAML 1.1 requires the point, not the zero.
  if (exponent + 2 < text.size() && text[exponent + 2] == '0') text.erase(exponent + 2, 1);
  if (text.find('.') == std::string::npos) text.insert(exponent, ".0");
  return text;
}

std::string write_text(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (std::size_t pos = 0; pos < text.size();) {
    const auto [code, length] = code_point(text, pos);
    // YAML's line breaks, controls and byte-order marks need escapes.
    const bool escape = code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 ||
                        code == 0xfeff || code == 0xfffe || code == 0xffff;
    if (code == '"' || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n') {
      out += "\\n";
    } else if (escape) {
      out += "\\u";
      for (int shift = 12; shift >= 0; shift -= 4) out += kHex[(code >> shift) & 15U];
    } else {
      out += text.substr(pos, length);
    }
    pos += length;
  }
  return out + "\"";
}

}  // namespace qrl::config
