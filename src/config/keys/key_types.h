// Owns the value types of keys, with their ranges.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.h"
#include "config/keys/key.h"
#include "config/option.h"

namespace qrl::config {

/// Describes, reads and prints values.
template <class T>
struct Type {
  std::string text;
  std::function<T(const YamlNode&)> read;  ///< throws ParseError
  std::function<std::string(const T&)> print;
  /// Makes paths to read absolute, relative to `directory` (empty: the working directory); empty for other values.
  std::function<void(T&, const std::filesystem::path& directory)> anchor = {};
};

/// Describes null's meaning as text and, if a recipe can hold it, as a value.
template <class T>
struct Unset {
  std::string text;
  std::function<std::optional<T>(const Recipe&)> value = {};
};

/// Bounds integer keys without a range; products of two fit in 64 bits.
inline constexpr std::int64_t kMaxInteger = 1'000'000'000;

Type<std::int64_t> integer(std::int64_t low, std::int64_t high = kMaxInteger);
/// Accepts -1 (no limit) or an integer in `low` … `high`.
Type<std::int64_t> integer_or_minus_one(std::int64_t low, std::int64_t high = kMaxInteger);
/// Accepts "auto", stored as 0, or an integer in 1 … high.
Type<std::int64_t> integer_or_auto(std::int64_t high);
/// Accepts "auto", stored as `automatic`, or a value of `type`.
template <class T>
Type<AutoValue<T>> or_auto(Type<T> type, AutoValue<T> automatic) {
  return {"auto | " + type.text,
          [read = type.read, automatic](const YamlNode& node) {
            const bool is_auto = node.kind == YamlNode::Kind::scalar && node.text == "auto";
            return is_auto ? automatic : AutoValue<T>(read(node));
          },
          [print = type.print](const AutoValue<T>& value) { return value.is_auto ? "auto" : print(value.value); }};
}
/// Accepts a number in `range` in fp64 and rounded to fp32, the computing type.
Type<double> real(const Range& range);
Type<std::string> text();
Type<std::string> variable_name();
/// Accepts a text with `part` exactly once.
Type<std::string> text_with_one(const std::string& part);
/// Accepts a file or folder to read, relative to its recipe; stored as an absolute path.
Type<std::string> input_path();
/// Accepts a folder like `input_path`, else a model in the Hub's cache, pinned to its commit (base/hub.h).
Type<std::string> model_path();
/// Accepts one of `words` unchanged, or a path.
Type<std::string> word_or_path(const std::vector<std::string>& words);
/// Accepts days, hours, minutes and seconds ("3h50m"), stored in seconds.
Type<double> duration();

/// Makes `path`, unless empty, absolute, relative to `directory` (empty: the working directory).
void anchor_path(std::string& path, const std::filesystem::path& directory);

/// Makes "" mean null.
Type<std::string> unset_when_empty(Type<std::string> type);

/// Returns the nearest of `names`, or ours for the word, as advice; "" if none is near.
std::string nearest_advice(const std::string& word, const std::vector<std::string>& names);

/// Accepts one of several words, each stored as its value.
template <class T>
Type<T> one_of(std::vector<std::pair<std::string, T>> values) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const auto& [name, value] : values) names.push_back(name);
  return {base::joined(names, " | "),
          [values, names](const YamlNode& node) -> T {
            if (node.kind != YamlNode::Kind::scalar) throw ParseError{shown_value(node)};
            for (const auto& [name, value] : values) {
              if (name == node.text) return value;
            }
            throw ParseError{shown_value(node), nearest_advice(node.text, names)};
          },
          [values](const T& printed) -> std::string {
            for (const auto& [name, value] : values) {
              if (value == printed) return name;
            }
            return "null";
          }};
}

/// Accepts a word of `choices`.
template <class T>
Type<Selected<T>> option_of(const Choices<T>& choices) {
  std::vector<std::pair<std::string, Selected<T>>> values;
  for (const Option* one : choices.all()) values.emplace_back(one->word, choices.select(one->word));
  return one_of(std::move(values));
}

/// Returns a member's type where it leaves no choice: an enum's words (words_of), a flag, a seed.
template <class T>
Type<T> type_of() {
  if constexpr (std::is_enum_v<T>) {
    std::vector<std::pair<std::string, T>> values;
    for (const std::string_view word : split(words_of(T{}), " | "))
      values.emplace_back(word, static_cast<T>(values.size()));
    return one_of(std::move(values));
  } else if constexpr (std::is_same_v<T, bool>) {
    return {"true | false", read_boolean, [](const bool& value) -> std::string { return value ? "true" : "false"; }};
  } else {
    static_assert(std::is_same_v<T, std::uint64_t>);
    return {"integer from 0 to 2^64-1", read_unsigned, [](const T& value) { return std::to_string(value); }};
  }
}

/// Accepts a list of `size` entries; 0: any number.
template <class T>
Type<std::vector<T>> list_of(Type<T> item, std::size_t size = 0) {
  const auto anchor = [item](std::vector<T>& values, const std::filesystem::path& directory) {
    for (T& value : values) item.anchor(value, directory);
  };
  return {"list of " + (size > 0 ? std::to_string(size) + " × " : "") + item.text,
          [item, size](const YamlNode& node) {
            if (node.kind != YamlNode::Kind::sequence) throw ParseError{shown_value(node), "write a list: [a, b]"};
            std::vector<T> values;
            for (const YamlPtr& entry : node.items) {
              try {
                values.push_back(item.read(*entry));
              } catch (const ParseError& error) {
                throw ParseError{error.got + " in the list", error.advice};
              }
            }
            if (size > 0 && values.size() != size) throw ParseError{"a list of " + std::to_string(values.size())};
            return values;
          },
          [item](const std::vector<T>& values) {
            std::vector<std::string> texts;
            texts.reserve(values.size());
            for (const T& value : values) texts.push_back(item.print(value));
            return "[" + base::joined(texts, ", ") + "]";
          },
          item.anchor ? anchor : std::function<void(std::vector<T>&, const std::filesystem::path&)>()};
}

/// Describes valid names of a map's entries.
struct MapNames {
  std::string kind;  ///< "score names"
  bool (*allows)(std::string_view name) = nullptr;
  std::string rule;  ///< "names have …"
};

/// Accepts a map from names to `item`s, set and printed as one value.
template <class T>
Type<std::map<std::string, T>> map_of(const MapNames& names, Type<T> item) {
  return {"map of " + names.kind + " to " + item.text,
          [names, item](const YamlNode& node) {
            if (node.kind != YamlNode::Kind::map) throw ParseError{shown_value(node), "write a map: {a: …, b: …}"};
            std::map<std::string, T> values;
            for (const YamlMember& member : node.members) {
              const std::string name = base::quoted(member.name);
              if (!names.allows(member.name)) throw ParseError{name, names.rule};
              try {
                values.emplace(member.name, item.read(*member.value));
              } catch (const ParseError& error) {
                throw ParseError{error.got + " for " + name, error.advice};
              }
            }
            return values;
          },
          [item](const std::map<std::string, T>& values) {
            std::vector<std::string> texts;
            texts.reserve(values.size());
            for (const auto& [name, value] : values) texts.push_back(write_text(name) + ": " + item.print(value));
            return "{" + base::joined(texts, ", ") + "}";
          }};
}

}  // namespace qrl::config
