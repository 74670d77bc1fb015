#include "config/keys/key_types.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <iterator>
#include <system_error>

#include "base/hub.h"
#include "base/shipped_files.h"

namespace qrl::config {

namespace {

std::string range_text(std::int64_t low, std::int64_t high) {
  return high == kMaxInteger ? "integer ≥ " + std::to_string(low)
                             : "integer from " + std::to_string(low) + " to " + std::to_string(high);
}

/// Reads an integer in range, or `word`, if set, as `word_value`.
Type<std::int64_t> integer_in(std::int64_t low, std::int64_t high, const std::string& text, const std::string& word,
                              std::int64_t word_value) {
  return {text,
          [=](const YamlNode& node) {
            if (!word.empty() && node.kind == YamlNode::Kind::scalar && node.text == word) return word_value;
            const std::int64_t value = read_integer(node);
            if (value < low || value > high)
              throw ParseError{node.text, value > high ? "at most " + std::to_string(high) : ""};
            return value;
          },
          [=](std::int64_t value) { return !word.empty() && value == word_value ? word : std::to_string(value); }};
}

}  // namespace

Type<std::int64_t> integer(std::int64_t low, std::int64_t high) {
  return integer_in(low, high, range_text(low, high), "", 0);
}

Type<std::int64_t> integer_or_minus_one(std::int64_t low, std::int64_t high) {
  return integer_in(low, high, "-1 or " + range_text(low, high), "-1", -1);
}

Type<std::int64_t> integer_or_auto(std::int64_t high) {
  return integer_in(1, high, "auto or integer from 1 to " + std::to_string(high), "auto", 0);
}

Type<std::string> text() { return {"text", read_text, write_text}; }

Type<std::string> variable_name() {
  const auto is_part = [](unsigned char c) { return c == '_' || (c < 0x80 && std::isalnum(c) != 0); };
  Type<std::string> type = text();
  type.text = "variable name";
  type.read = [is_part](const YamlNode& node) {
    std::string name = read_text(node);
    const bool starts_well = std::isdigit(static_cast<unsigned char>(name.front())) == 0;
    if (!starts_well || !std::all_of(name.begin(), name.end(), is_part)) {
      throw ParseError{base::quoted(name.substr(0, name.find('='))),
                       "write the name alone: values are never in a recipe"};
    }
    return name;
  };
  return type;
}

void anchor_path(std::string& path, const std::filesystem::path& directory) {
  if (path.empty()) return;
  std::error_code unknown;  // fails in a deleted working directory: the path stays relative
  const std::filesystem::path whole = directory / base::shipped_path(path);
  const std::filesystem::path absolute = std::filesystem::absolute(whole, unknown);
  path = (unknown ? whole : absolute).lexically_normal().string();
}

Type<std::string> input_path() {
  Type<std::string> type = text();
  type.text = "path";
  type.anchor = anchor_path;
  return type;
}

Type<std::string> word_or_path(const std::vector<std::string>& words) {
  Type<std::string> type = input_path();
  type.text = base::joined(words, " | ") + " | path";
  type.anchor = [words](std::string& path, const std::filesystem::path& directory) {
    if (std::find(words.begin(), words.end(), path) == words.end()) anchor_path(path, directory);
  };
  return type;
}

Type<std::string> model_path() {
  Type<std::string> type = input_path();
  type.text = "path | OWNER/NAME[@REVISION]";
  type.anchor = [](std::string& path, const std::filesystem::path& directory) {
    std::error_code error;
    if (!base::is_hub_name(path) || std::filesystem::exists(directory / path, error)) {
      anchor_path(path, directory);
    } else if (const auto pinned = base::pinned_hub_name(path)) {
      path = *pinned;
    }
  };
  return type;
}

Type<double> duration() {
  static constexpr std::pair<char, std::int64_t> kUnits[] = {{'d', 86'400}, {'h', 3'600}, {'m', 60}, {'s', 1}};
  const auto read = [](const YamlNode& node) {
    const ParseError wrong{shown_value(node), "write 3h50m, 45m or 90s"};
    if (node.kind != YamlNode::Kind::scalar) throw wrong;
    std::int64_t seconds = 0, number = -1;
    const auto* unit = std::begin(kUnits);
    for (const char c : node.text) {
      if (c >= '0' && c <= '9' && number < kMaxInteger) {
        number = std::max<std::int64_t>(number, 0) * 10 + (c - '0');
        continue;
      }
      unit = std::find_if(unit, std::end(kUnits), [c](const auto& one) { return one.first == c; });
      if (unit == std::end(kUnits) || number < 0) throw wrong;
      const std::int64_t limit = seconds > 0 ? (unit - 1)->second / unit->second : number + 1;
      if (number >= limit) throw ParseError{wrong.got, "behind a larger unit write 23h, 59m and 59s at most"};
      seconds += number * unit->second;
      number = -1;
      ++unit;
    }
    if (number >= 0 || seconds == 0) throw wrong;
    return static_cast<double>(seconds);
  };
  const auto print = [](const double& value) {
    auto seconds = static_cast<std::int64_t>(value);
    std::string text;
    for (const auto& [name, size] : kUnits) {
      if (seconds >= size) text += std::to_string(seconds / size) + name;
      seconds %= size;
    }
    return text;
  };
  return {"time above 0: 3h50m", read, print};
}

Type<std::string> text_with_one(const std::string& part) {
  Type<std::string> type = text();
  type.text = "text with one " + part;
  type.read = [part](const YamlNode& node) {
    std::string value = read_text(node);
    const std::size_t first = value.find(part);
    if (first == std::string::npos) throw ParseError{base::quoted(value), "put " + part + " where it belongs"};
    if (value.find(part, first + 1) == std::string::npos) return value;
    throw ParseError{base::quoted(value) + ", which holds " + part + " twice", "keep the one that is to be filled in"};
  };
  return type;
}

Type<std::string> unset_when_empty(Type<std::string> type) {
  type.print = [print = type.print](const std::string& value) { return value.empty() ? "null" : print(value); };
  return type;
}

Type<double> real(const Range& range) {
  return {"float" + std::string(range.text),
          [range](const YamlNode& node) {
            const double value = read_real(node);
            if (!range.holds(value)) throw ParseError{node.text};
            const auto rounded = static_cast<float>(value);
            if (value != 0 && !std::isnormal(rounded))
              throw ParseError{node.text, "fp32 holds numbers from 1.2e-38 to 3.4e38, and 0"};
            if (!range.holds(rounded)) throw ParseError{node.text, "in fp32 it is " + write_real(rounded)};
            return value;
          },
          write_real};
}

std::string nearest_advice(const std::string& word, const std::vector<std::string>& names) {
  // Two names for the same value; each key allows one of the two.
  static constexpr std::array<std::pair<const char*, const char*>, 3> kTwins = {
      {{"bfloat16", "bf16"}, {"float32", "fp32"}, {"low_var_kl", "k3"}}};
  std::string lower = word.substr(0, 100);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const auto& [one, other] : kTwins) {
    for (const std::string& name : names) {
      if ((lower == one && name == other) || (lower == other && name == one)) return "here it is " + name;
    }
  }
  const std::string nearest = base::nearest_name(lower, names);
  return nearest.empty() ? "" : "did you mean " + nearest + "?";
}

}  // namespace qrl::config
