// Owns a recipe's options. An option is one of the words that a key accepts, with what it declares.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace qrl::config {

/// Describes valid numbers. Help prints `text` after the type.
struct Range {
  std::string_view text;
  bool (*holds)(double);
};
inline constexpr Range kAny{"", [](double) { return true; }};
inline constexpr Range kPositive{" > 0", [](double x) { return x > 0; }};
inline constexpr Range kAtLeast0{" ≥ 0", [](double x) { return x >= 0; }};
inline constexpr Range kAtLeast1{" ≥ 1", [](double x) { return x >= 1; }};
inline constexpr Range kAbove1OrOff{" > 1, or 0 for off", [](double x) { return x > 1 || x == 0; }};
inline constexpr Range kFrom0To1{" in [0, 1]", [](double x) { return x >= 0 && x <= 1; }};
inline constexpr Range kAbove0To1{" in (0, 1]", [](double x) { return x > 0 && x <= 1; }};
inline constexpr Range kPercentile{" in (0, 100]", [](double x) { return x > 0 && x <= 100; }};
inline constexpr Range kInside0To1{" in (0, 1)", [](double x) { return x > 0 && x < 1; }};
inline constexpr Range kFrom0ToBelow1{" in [0, 1)", [](double x) { return x >= 0 && x < 1; }};

/// Holds the value of a Param. A string is one of the words that Param::type lists.
using ParamValue = std::variant<double, bool, std::int64_t, std::string>;

/// Describes a key that options declare. Each type derived from it describes one kind of key.
struct Param {
  /// Full key "SECTION.WORD.KEY", where WORD is the option's word, or the key within a section that several options
  /// fill.
  std::string name;
  struct Flag {};
  using Words = std::vector<std::string>;
  struct Integers {
    std::int64_t low = 0, high = 1'000'000'000;  ///< both inclusive; the default is the limit of most keys
  };
  std::variant<Range, Flag, Words, Integers> type;
  ParamValue default_value;
  std::string meaning;
  bool of_negatives = false;  ///< if set, the loss uses the param only for negative advantages
  std::string at_most = {};   ///< another param of the same task generator, which limits this param; "": none
};

struct NumberParam : Param {
  NumberParam(std::string key, Range range, double otherwise, std::string what, bool negatives = false)
      : Param{std::move(key), range, otherwise, std::move(what), negatives} {}
};
struct FlagParam : Param {
  FlagParam(std::string key, bool otherwise, std::string what)
      : Param{std::move(key), Flag{}, otherwise, std::move(what)} {}
};
struct IntegerParam : Param {
  IntegerParam(std::string key, Integers range, std::int64_t otherwise, std::string what, std::string limit = {})
      : Param{std::move(key), range, otherwise, std::move(what), false, std::move(limit)} {}
};
/// Declares a param whose words each mean a T. The first word is the default.
template <class T>
struct WordParam : Param {
  using Values = std::vector<std::pair<std::string, T>>;
  WordParam(std::string key, Values all, std::string what)
      : Param{std::move(key), Words{}, all.front().first, std::move(what)}, values(std::move(all)) {
    for (const auto& [word, value] : values) std::get<Words>(type).push_back(word);
  }
  Values values;
};

/// Stores params' values, except defaults, so that equal settings compare equal.
class ParamValues {
 public:
  double of(const NumberParam& param) const { return std::get<double>(value(param)); }
  bool of(const FlagParam& param) const { return std::get<bool>(value(param)); }
  std::int64_t of(const IntegerParam& param) const { return std::get<std::int64_t>(value(param)); }
  template <class T>
  T of(const WordParam<T>& param) const {
    const auto& word = std::get<std::string>(value(param));
    return std::find_if(param.values.begin(), param.values.end(), [&](const auto& one) { return one.first == word; })
        ->second;
  }
  const ParamValue& value(const Param& param) const;
  /// Throws an internal error for a value of another type than the param's, and for an unknown word.
  void set(const Param& param, ParamValue value);
  friend bool operator==(const ParamValues&, const ParamValues&) = default;

 private:
  std::map<std::string, ParamValue> values_;
};

/// Gives the value that a key's null means while an option is selected. A mode's default applies if the recipe does not
/// set the key.
struct KeyDefault {
  std::string key, value;  ///< `value` is YAML
  /// If set, the default applies only while the key `with` has the value that this option gives to that key.
  std::string with = {};
};

/// Lists the values that a key may have with an option. null is always allowed.
struct Constraint {
  std::string key;
  std::vector<std::string> values;  ///< values as recipes print them; {"null"}: the key must not be set
  std::string reason;
};

/// Maps another trainer's key name to ours (config/keys/other_trainers.yaml).
struct Alias {
  std::string name;       ///< as the other trainer writes it, without dashes; may be a full dotted name or
                          ///< a section.* for all of its keys
  std::string key;        ///< our key or keys, as text; "": none
  std::string note;       ///< units or alternative; may be empty
  std::string rule = {};  ///< how `qrl-train port` translates the value (other_trainers.yaml); "": copies it
};

struct Option {
  std::string word;
  std::string what;        ///< one line
  std::string paper = {};  ///< reference; "" if none exists
  std::vector<KeyDefault> defaults = {};
  std::vector<Constraint> constraints = {};
  std::vector<Param> params = {};
  /// Lists keys that this option shares with others. Such a key has an effect only while the selected option lists or
  /// declares it.
  std::vector<std::string> uses = {};
  std::vector<Alias> aliases = {};
  bool around_sampler = false;  ///< whether the loss's ratio and bound are relative to the sampler's policy, not π_old
  bool needs_updates = false;   ///< if set, the loss differs from the default loss only in steps with several updates
  std::string former = {};      ///< word of earlier versions, which recipes and records may still have

  /// Returns the option's default for `key` as YAML, or "null".
  std::string default_of(std::string_view key) const;
};

/// Lists a key's options in display order. The options must outlive the list.
class AnyChoices {
 public:
  const std::vector<const Option*>& all() const { return all_; }

 protected:
  std::vector<const Option*> all_;
};

template <class T>
class Selected;

template <class T>
class Choices : public AnyChoices {
 public:
  Choices() = default;
  /// `default_word` is empty if the key may be null.
  Choices(std::initializer_list<const T*> options, std::string default_word) : default_word_(std::move(default_word)) {
    for (const T* one : options) add(*one);
  }
  void add(const T& option) {
    all_.push_back(&option);
    typed_.push_back(&option);
  }
  const std::vector<const T*>& typed() const { return typed_; }
  const T* find(std::string_view word) const { return select(word).get(); }
  Selected<T> select(std::string_view word) const {
    for (std::size_t i = 0; i < typed_.size(); ++i)
      if (all_[i]->word == word || (!word.empty() && all_[i]->former == word)) return {*all_[i], *typed_[i]};
    return {};
  }
  Selected<T> default_option() const { return select(default_word_); }

 private:
  std::vector<const T*> typed_;
  std::string default_word_;
};

/// Holds the option that a recipe selects, or none.
template <class T>
class Selected {
 public:
  Selected() = default;
  Selected(const Option& option, const T& typed) : option_(&option), typed_(&typed) {}
  bool empty() const { return option_ == nullptr; }
  std::string word() const { return option_ == nullptr ? "" : option_->word; }
  const Option* option() const { return option_; }
  const T* get() const { return typed_; }
  const T& operator*() const { return *typed_; }
  const T* operator->() const { return typed_; }
  friend bool operator==(const Selected& one, const Selected& other) { return one.option_ == other.option_; }
  friend bool operator==(const Selected& one, std::string_view word) { return one.word() == word; }

 private:
  const Option* option_ = nullptr;
  const T* typed_ = nullptr;
};

}  // namespace qrl::config
