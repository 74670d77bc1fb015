#include "config/keys/key_types.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <regex>
#include <system_error>

#include "base/ascii.h"
#include "base/hub.h"
#include "base/shipped_files.h"
#include "config/keys/other_trainers.h"

namespace qrl::config {

Type<std::int64_t> integer(std::int64_t low, std::int64_t high) {
  return {high == kMaxInteger ? "integer ≥ " + std::to_string(low)
                              : "integer from " + std::to_string(low) + " to " + std::to_string(high),
          [low, high](const YamlNode& node) {
            const std::int64_t value = read_integer(node);
            if (value < low || value > high)
              throw ParseError{node.text, value > high ? "at most " + std::to_string(high) : ""};
            return value;
          },
          [](std::int64_t value) { return std::to_string(value); }};
}

Type<std::string> text() { return {"text", read_text, write_text}; }

Type<std::string> variable_name() {
  const auto read = [](const YamlNode& node) {
    std::string name = read_text(node);
    const auto is_part = [](char c) { return c == '_' || base::is_alphanumeric(c); };
    if (base::is_digit(name.front()) || !std::all_of(name.begin(), name.end(), is_part)) {
      throw ParseError{base::quoted(name.substr(0, name.find('='))),
                       "write only the name: a recipe never contains the value"};
    }
    return name;
  };
  return {"variable name", read, write_text};
}

void anchor_path(std::string& path, const std::filesystem::path& directory) {
  if (path.empty()) return;
  std::error_code unknown;  // set in a deleted working directory; then the path stays relative
  const std::filesystem::path whole = directory / base::shipped_path(path);
  const std::filesystem::path absolute = std::filesystem::absolute(whole, unknown);
  path = (unknown ? whole : absolute).lexically_normal().string();
}

Type<std::string> input_path() { return {"path", read_text, write_text, anchor_path}; }

Type<std::string> word_or_path(const std::vector<std::string>& words) {
  const auto anchor = [words](std::string& path, const std::filesystem::path& directory) {
    if (std::find(words.begin(), words.end(), path) == words.end()) anchor_path(path, directory);
  };
  return {base::joined(words, " | ") + " | path", read_text, write_text, anchor};
}

Type<std::string> model_path() {
  const auto anchor = [](std::string& path, const std::filesystem::path& directory) {
    std::error_code error;
    if (!base::is_hub_name(path) || std::filesystem::exists(directory / path, error)) {
      anchor_path(path, directory);
    } else if (const auto pinned = base::pinned_hub_name(path)) {
      path = *pinned;
    }
  };
  return {"path | OWNER/NAME[@REVISION]", read_text, write_text, anchor};
}

Type<double> duration() {
  static constexpr std::pair<char, std::int64_t> kUnits[] = {{'d', 86'400}, {'h', 3'600}, {'m', 60}, {'s', 1}};
  const auto read = [](const YamlNode& node) {
    static const std::regex kForm("(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?");
    std::int64_t seconds = 0;
    std::smatch numbers;
    if (node.kind == YamlNode::Kind::scalar && std::regex_match(node.text, numbers, kForm)) {
      for (std::size_t i = 0; i < std::size(kUnits); ++i) {
        if (!numbers[i + 1].matched) continue;
        const std::int64_t number = std::stoll(numbers[i + 1]);
        if (seconds > 0 && number >= kUnits[i - 1].second / kUnits[i].second)
          throw ParseError{shown_value(node), "after a larger unit write at most 23h, 59m and 59s"};
        seconds += number * kUnits[i].second;
      }
    }
    if (seconds == 0) throw ParseError{shown_value(node), "write 3h50m, 45m or 90s"};
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

Type<std::size_t> one_of(const std::vector<std::string>& words) {
  const auto read = [words](const YamlNode& node) {
    if (node.kind != YamlNode::Kind::scalar) throw ParseError{shown_value(node)};
    const auto found = std::find(words.begin(), words.end(), node.text);
    if (found == words.end()) throw ParseError{shown_value(node), nearest_advice(node.text, words)};
    return static_cast<std::size_t>(found - words.begin());
  };
  return {base::joined(words, " | "), read, [words](std::size_t index) { return words.at(index); }};
}

Type<std::string> text_with_one(const std::string& part) {
  const auto read = [part](const YamlNode& node) {
    std::string value = read_text(node);
    const std::size_t first = value.find(part);
    if (first == std::string::npos) throw ParseError{base::quoted(value), "put " + part + " where it belongs"};
    if (value.find(part, first + 1) == std::string::npos) return value;
    throw ParseError{base::quoted(value) + ", which contains " + part + " twice", "keep only the one to fill in"};
  };
  return {"text with one " + part, read, write_text};
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
  const std::string lower = base::lower_case(word.substr(0, 100));
  bool is_foreign = false;
  for (const ForeignValue& row : foreign_values()) {
    if (row.value != lower) continue;
    if (std::ranges::find(names, row.settings) != names.end()) return "here it is " + row.settings;
    is_foreign = is_foreign || !row.has_counterpart;  // float16 is not bf16 misspelled
  }
  if (is_foreign) return "";
  const std::string nearest = base::nearest_name(lower, names);
  return nearest.empty() ? "" : "did you mean " + nearest + "?";
}

}  // namespace qrl::config
