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
#include "config/words.h"

namespace qrl::config {

template <class T>
struct Type {
  std::string text;
  std::function<T(const YamlNode&)> read;  ///< throws ParseError
  std::function<std::string(const T&)> print;
  /// Makes input paths absolute (anchor_path). This function is empty for types without paths.
  std::function<void(T&, const std::filesystem::path& directory)> anchor = {};
};

/// Is the maximum of integer keys that declare no range. Products of two such values fit in 64 bits.
inline constexpr std::int64_t kMaxInteger = 1'000'000'000;

Type<std::int64_t> integer(std::int64_t low, std::int64_t high = kMaxInteger);
/// Accepts `word`, and stores `value` for it. Also accepts the values of `type`.
template <class T, class Stored>
Type<Stored> word_or(const std::string& word, Stored value, Type<T> type) {
  return {word + " | " + type.text,
          [word, value, read = type.read](const YamlNode& node) {
            return node.kind == YamlNode::Kind::scalar && node.text == word ? value : Stored(read(node));
          },
          [word, value, print = type.print](const Stored& one) { return one == value ? word : print(one); }};
}
/// Accepts a number that is in `range` both in fp64 and after rounding to fp32, the type of computations.
Type<double> real(const Range& range);
Type<std::string> text();
Type<std::string> variable_name();
Type<std::string> text_with_one(const std::string& part);
/// Accepts a path to read, relative to the recipe's folder. Stores an absolute path.
Type<std::string> input_path();
/// Accepts a folder like input_path, or a model's Hub name. If the Hub's cache has the model, stores the name with the
/// commit (base/hub.h).
Type<std::string> model_path();
/// Accepts one of `words`, or a path. Stores a path like input_path.
Type<std::string> word_or_path(const std::vector<std::string>& words);
/// Accepts days, hours, minutes and seconds ("3h50m"). Stores seconds.
Type<double> duration();

/// Makes a nonempty path absolute, relative to `directory`, or to the working directory if `directory` is empty.
void anchor_path(std::string& path, const std::filesystem::path& directory);

/// Returns advice: our name for `word`, or the nearest of `names`; "" if none is near.
std::string nearest_advice(const std::string& word, const std::vector<std::string>& names);

/// Accepts one of `words`. Stores its index.
Type<std::size_t> one_of(const std::vector<std::string>& words);

/// Accepts the words of `choices` other than those of `except`.
template <class T>
Type<Selected<T>> option_of(const Choices<T>& choices, const std::vector<std::string>& except = {}) {
  std::vector<std::string> words;
  for (const Option* one : choices.all())
    if (std::ranges::find(except, one->word) == except.end()) words.push_back(one->word);
  const Type<std::size_t> index = one_of(words);
  return {index.text,
          [choices, words, read = index.read](const YamlNode& node) {
            const auto is_former = [&](const Option* one) { return !one->former.empty() && one->former == node.text; };
            const bool has_former = std::ranges::any_of(choices.all(), is_former);
            return choices.select(has_former ? node.text : words[read(node)]);
          },
          [](const Selected<T>& option) { return option.empty() ? "null" : option.word(); }};
}

/// A `size` of 0 allows any number of entries.
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

/// Returns the usual type of a (perhaps optional) member: an enum's words (words_of), a flag, a 64-bit seed, a number,
/// a text, or a list of these.
template <class T>
auto type_of() {
  if constexpr (requires(T value) { value.has_value(); }) {
    return type_of<typename T::value_type>();
  } else if constexpr (std::is_enum_v<T>) {
    const std::vector<std::string_view> words = split(words_of(T{}), " | ");
    const Type<std::size_t> index = one_of({words.begin(), words.end()});
    return Type<T>{index.text, [read = index.read](const YamlNode& node) { return static_cast<T>(read(node)); },
                   [print = index.print](const T& value) { return print(static_cast<std::size_t>(value)); }};
  } else if constexpr (std::is_same_v<T, bool>) {
    return Type<T>{"true | false", read_boolean, [](bool value) { return std::string(value ? "true" : "false"); }};
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return Type<T>{"integer from 0 to 2^64-1", read_unsigned, [](T value) { return std::to_string(value); }};
  } else if constexpr (std::is_same_v<T, double>) {
    return real(kAny);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return text();
  } else {
    return list_of(type_of<typename T::value_type>());
  }
}

struct MapNames {
  std::string kind;  ///< for messages: "score names"
  bool (*allows)(std::string_view name) = nullptr;
  std::string rule;  ///< says what `allows` requires: "names have …"
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
