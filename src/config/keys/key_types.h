// Owns keys.cpp's vocabulary: value types with ranges, and paths to members.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.h"
#include "config/choice.h"
#include "config/keys/key.h"
#include "config/yaml/scalars.h"

namespace qrl::config {

/// Describes, reads and prints values.
template <class T>
struct Type {
  std::string text;
  std::function<Reading<T>(const YamlNode&)> read;
  std::function<std::string(const T&)> print;
  bool is_input_path = false;           ///< T is a string or list of strings that names files or folders to read
  std::vector<std::string> words = {};  ///< with is_input_path: values that are no paths
  bool may_be_hub_name = false;         ///< with is_input_path
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
          [read = type.read, automatic](const YamlNode& node) -> Reading<AutoValue<T>> {
            if (node.kind == YamlNode::Kind::scalar && node.text == "auto") return automatic;
            Reading<T> reading = read(node);
            if (auto* refusal = std::get_if<Refusal>(&reading)) return std::move(*refusal);
            return AutoValue<T>(std::get<T>(reading));
          },
          [print = type.print](const AutoValue<T>& value) { return value.is_auto ? "auto" : print(value.value); }};
}
Type<std::uint64_t> seed();
Type<bool> boolean();
Type<std::string> text();
Type<std::string> variable_name();
/// Accepts a file or folder to read, relative to its recipe; stored as an absolute path.
Type<std::string> input_path();
/// Accepts a folder like `input_path`, else a model in the Hub's cache, pinned to its commit (base/hub.h).
Type<std::string> model_path();
/// Accepts days, hours, minutes and seconds ("3h50m"), stored in seconds.
Type<double> duration();
/// Accepts one of `words` unchanged, or a path.
Type<std::string> word_or_path(const std::vector<std::string>& words);
/// Makes `path`, unless empty, absolute, relative to `directory` (empty: the working directory).
void anchor_path(std::string& path, const std::filesystem::path& directory);
/// Pins a cached hub name to a commit unless a folder has that path. Returns whether `path` has a hub name's form and
/// no such folder.
bool anchor_hub_name(std::string& path, const std::filesystem::path& directory);
/// Accepts a text with `part` exactly once.
Type<std::string> text_with_one(const std::string& part);
/// Makes "" mean null.
Type<std::string> unset_when_empty(Type<std::string> type);

/// Accepts a number in `range` in fp64 and rounded to fp32, the computing type.
Type<double> real(const Range& range);

/// Returns the nearest of `names`, or ours for the word, as advice; "" if none is near.
std::string choice_advice(const std::string& word, const std::vector<std::string>& names);

template <class Enum>
Type<Enum> choice(std::vector<std::pair<std::string, Enum>> values) {
  std::vector<std::string> names;
  std::string text;
  for (const auto& [name, value] : values) {
    names.push_back(name);
    text += (text.empty() ? "" : " | ") + name;
  }
  return {text,
          [values, names](const YamlNode& node) -> Reading<Enum> {
            if (node.kind != YamlNode::Kind::scalar) return Refusal{shown_value(node), {}};
            for (const auto& [name, value] : values) {
              if (name == node.text) return value;
            }
            return Refusal{shown_value(node), choice_advice(node.text, names)};
          },
          [values](const Enum& wanted) -> std::string {
            for (const auto& [name, value] : values) {
              if (value == wanted) return name;
            }
            return "null";
          }};
}

/// Accepts a list of `size` entries; 0: any number.
template <class T>
Type<std::vector<T>> list_of(Type<T> item, std::size_t size = 0) {
  const std::string text = "list of " + (size > 0 ? std::to_string(size) + " × " : "") + item.text;
  return {text,
          [item, size](const YamlNode& node) -> Reading<std::vector<T>> {
            if (node.kind != YamlNode::Kind::sequence) return Refusal{shown_value(node), "write a list: [a, b]"};
            std::vector<T> values;
            for (const YamlPtr& entry : node.items) {
              Reading<T> reading = item.read(*entry);
              if (const auto* refusal = std::get_if<Refusal>(&reading)) {
                return Refusal{refusal->got + " in the list", refusal->advice};
              }
              values.push_back(std::get<T>(std::move(reading)));
            }
            if (size > 0 && values.size() != size) return Refusal{"a list of " + std::to_string(values.size()), {}};
            return values;
          },
          [item](const std::vector<T>& values) {
            std::string out = "[";
            for (const T& value : values) out += (out.size() > 1 ? ", " : "") + item.print(value);
            return out + "]";
          },
          item.is_input_path, item.words};
}

/// Describes valid names of a map's entries.
struct MapNames {
  std::string kind;  ///< "score names"
  bool (*allows)(std::string_view name) = nullptr;
  std::string rule;  ///< "names have …"
};
MapNames score_names();
MapNames source_names();

/// Accepts a map from names to `item`s, set and printed as one value.
template <class T>
Type<std::map<std::string, T>> map_of(const MapNames& names, Type<T> item) {
  return {"map of " + names.kind + " to " + item.text,
          [names, item](const YamlNode& node) -> Reading<std::map<std::string, T>> {
            if (node.kind != YamlNode::Kind::map) return Refusal{shown_value(node), "write a map: {a: …, b: …}"};
            std::map<std::string, T> values;
            for (const YamlMember& member : node.members) {
              const std::string name = base::quoted(member.name);
              if (!names.allows(member.name)) return Refusal{name, names.rule};
              Reading<T> reading = item.read(*member.value);
              if (const auto* refusal = std::get_if<Refusal>(&reading))
                return Refusal{refusal->got + " for " + name, refusal->advice};
              values.emplace(member.name, std::get<T>(std::move(reading)));
            }
            return values;
          },
          [item](const std::map<std::string, T>& values) {
            std::string out = "{";
            for (const auto& [name, value] : values)
              out += (out.size() > 1 ? ", " : "") + write_text(name) + ": " + item.print(value);
            return out + "}";
          }};
}

/// Leads to a member: at(&Recipe::optim, &OptimRecipe::lr).
template <class... Members>
auto at(Members... path) {
  return [path...](auto& recipe) -> auto& { return (recipe.*....*path); };
}

/// Declares a key whose member is a T, or an optional T.
template <class Path, class T>
Key key(std::string name, Path member, Type<T> type, std::string meaning, Unset<T> unset = {}) {
  using Member = std::remove_cvref_t<decltype(member(std::declval<Recipe&>()))>;
  constexpr bool kPlain = std::is_same_v<Member, T>;
  static_assert(kPlain || std::is_same_v<Member, std::optional<T>>);
  Key key{std::move(name), type.text, std::move(meaning), unset.text};
  key.read = [member, type](const YamlNode& node, Recipe& recipe) -> std::optional<Refusal> {
    Reading<T> reading = type.read(node);
    if (auto* refusal = std::get_if<Refusal>(&reading)) return std::move(*refusal);
    member(recipe) = std::get<T>(std::move(reading));
    return std::nullopt;
  };
  key.reset = [member](Recipe& recipe) { member(recipe) = member(recipe.keys->defaults()); };
  key.print = [member, type](const Recipe& recipe) -> std::string {
    if constexpr (kPlain) return type.print(member(recipe));
    else return member(recipe) ? type.print(*member(recipe)) : "null";
  };
  if constexpr (requires(Member value) { value.is_auto; }) {
    key.fill = [member](Recipe& recipe) {  // the CPU's default is constant: the recipe states it
      if (!learns_on_gpu(recipe)) member(recipe).is_auto = false;
    };
  }
  if constexpr (!kPlain) {
    key.fill = [member, unset](Recipe& recipe) {
      if (!member(recipe) && unset.value) member(recipe) = unset.value(recipe);
    };
  }
  if constexpr (std::is_same_v<Member, std::string>) {
    if (type.is_input_path) {
      key.anchor = [member, words = type.words, may_be_hub_name = type.may_be_hub_name](Recipe& recipe,
                                                                                        const auto& directory) {
        if (may_be_hub_name && anchor_hub_name(member(recipe), directory)) return;
        if (std::find(words.begin(), words.end(), member(recipe)) == words.end())
          anchor_path(member(recipe), directory);
      };
    }
  } else if constexpr (std::is_same_v<Member, std::vector<std::string>>) {
    if (type.is_input_path) {
      key.anchor = [member](Recipe& recipe, const auto& directory) {
        for (std::string& path : member(recipe)) anchor_path(path, directory);
      };
    }
  }
  return key;
}

/// Adds a section's keys to `list`; `path` leads to its struct.
template <class... Path>
class Section {
 public:
  Section(std::vector<Key>& list, std::string name, Path... path)
      : list_(list), name_(std::move(name)), path_(path...) {}

  /// Declares "section.name"; the reference is valid until the next key.
  template <class Member, class T>
  Key& add(const std::string& name, Member member, Type<T> type, std::string meaning, Unset<T> unset = {}) {
    const auto whole = std::apply([member](auto... path) { return at(path..., member); }, path_);
    Key& added =
        list_.emplace_back(key(name_ + "." + name, whole, std::move(type), std::move(meaning), std::move(unset)));
    added.on_resume = on_resume_;
    added.condition = condition_;
    return added;
  }
  /// Set what the keys added from here on have in common.
  void all(OnResume on_resume) { on_resume_ = on_resume; }
  void only_with(Condition condition) { condition_ = std::move(condition); }
  void only_with(const std::string& other, const std::string& values) { condition_ = condition_of(other, values); }
  OnResume on_resume() const { return on_resume_; }
  /// Returns the section "section.name" with struct `member`.
  template <class Member>
  Section<Path..., Member> inner(const std::string& name, Member member) const {
    return std::apply(
        [&](auto... path) {
          Section<Path..., Member> section(list_, name_ + "." + name, path..., member);
          section.all(on_resume_);
          return section;
        },
        path_);
  }
  template <class AnyRecipe>
  auto& of(AnyRecipe& recipe) const {
    return std::apply(
        [&recipe](auto... path) -> auto& { return at(path...)(recipe); }, path_);
  }

 private:
  std::vector<Key>& list_;
  std::string name_;
  std::tuple<Path...> path_;
  OnResume on_resume_ = OnResume::fixed;
  Condition condition_ = {};
};

}  // namespace qrl::config
