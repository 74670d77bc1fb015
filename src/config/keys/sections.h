// Owns the helpers that declare keys.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/auto_value.h"
#include "config/keys/key_types.h"

namespace qrl::config {

/// Accesses a member of type M in a recipe. The accessors of all such members have one type, so that their keys share
/// code.
template <class M>
class Access {
 public:
  explicit Access(std::function<M&(Recipe&)> reach) : reach_(std::move(reach)) {}
  explicit Access(M Recipe::*member) : reach_(std::mem_fn(member)) {}
  M& operator()(Recipe& recipe) const { return reach_(recipe); }
  const M& operator()(const Recipe& recipe) const { return reach_(const_cast<Recipe&>(recipe)); }
  template <std::same_as<M> Struct, class Inner>
  Access<Inner> at(Inner Struct::*member) const {
    return Access<Inner>([reach = reach_, member](Recipe& recipe) -> Inner& { return reach(recipe).*member; });
  }

 private:
  std::function<M&(Recipe&)> reach_;
};

/// Makes a key whose member is a T, or an optional T. If `unset` is given, an empty text or 0 prints as null.
template <class Member, class T>
Key make_key(Keys& keys, std::string name, const Access<Member>& member, const Type<T>& type, std::string meaning,
             std::string unset = {}) {
  constexpr bool kPlain = std::is_same_v<Member, T>;
  static_assert(kPlain || std::is_same_v<Member, std::optional<T>>);
  Key key{std::move(name), type.text, std::move(meaning), std::move(unset)};
  key.read = [member, read = type.read](const YamlNode& node, Recipe& recipe) { member(recipe) = read(node); };
  key.reset = [member, &keys](Recipe& recipe) { member(recipe) = member(keys.defaults()); };
  key.equal = [member](const Recipe& one, const Recipe& other) { return member(one) == member(other); };
  key.print = [member, print = type.print, unset_if_empty = !key.unset.empty()](const Recipe& recipe) -> std::string {
    if constexpr (!kPlain) return member(recipe) ? print(*member(recipe)) : "null";
    else if constexpr (!std::is_same_v<T, std::string> && !std::is_arithmetic_v<T>) return print(member(recipe));
    else return unset_if_empty && member(recipe) == T{} ? "null" : print(member(recipe));
  };
  if constexpr (requires(Member value) { value.is_auto; }) {
    key.fill = [member](Recipe& recipe) { member(recipe).is_auto = false; };  // the recipe then states the value
  }
  if constexpr (kPlain) {
    if (type.anchor) {
      key.anchor = [member, anchor = type.anchor](Recipe& recipe, const auto& directory) {
        anchor(member(recipe), directory);
      };
    }
  }
  return key;
}

/// Adds the keys of a section to `keys`. Struct S has the keys' values.
template <class S>
class Section {
 public:
  Section(Keys& keys, std::string name, Access<S> access)
      : keys_(keys), name_(std::move(name)), access_(std::move(access)) {}
  Section(Keys& keys, std::string name, S Recipe::*member) : Section(keys, std::move(name), Access<S>(member)) {}

  /// Declares the key "section.name". The reference is valid until the next key is added.
  template <class Member, class T>
  Key& add(OnResume on_resume, const std::string& name, Member S::*member, const Type<T>& type, std::string meaning,
           std::string unset = {}) {
    Key key = make_key(keys_, name_ + "." + name, access_.at(member), type, std::move(meaning), std::move(unset));
    key.on_resume = on_resume;
    key.condition = condition_;
    if (behind_.empty()) return keys_.add(std::move(key));
    const std::string other = std::exchange(behind_, key.name);
    return keys_.add_behind(other, std::move(key));
  }
  template <class Member>
  Key& add(OnResume on_resume, const std::string& name, Member S::*member, std::string meaning,
           std::string unset = {}) {
    return add(on_resume, name, member, type_of<Member>(), std::move(meaning), std::move(unset));
  }
  /// Sets the condition of all keys added after this call.
  void only_with(Condition condition) { condition_ = std::move(condition); }
  void only_with(const std::string& other, const std::string& values) { condition_ = {other, values}; }
  /// Returns the section "section.name" with struct `member`.
  template <class Inner>
  Section<Inner> inner(const std::string& name, Inner S::*member) const {
    return {keys_, name_ + "." + name, access_.at(member)};
  }
  /// Puts the keys added after this call behind `key`.
  Section& behind(std::string key) {
    behind_ = std::move(key);
    return *this;
  }
  /// Returns the section for the keys of a base of S, with the condition that keys have now.
  template <class Base>
  requires std::derived_from<S, Base> Section<Base> of()
  const {
    Section<Base> section(keys_, name_,
                          Access<Base>([access = access_](Recipe& recipe) -> Base& { return access(recipe); }));
    section.only_with(condition_);
    return section;
  }
  const std::string& name() const { return name_; }
  const Access<S>& access() const { return access_; }
  Keys& keys() const { return keys_; }

 private:
  Keys& keys_;
  std::string name_;
  Access<S> access_;
  Condition condition_ = {};
  std::string behind_;  ///< the key that the next one follows; "": the last one
};

/// Restricts `key` to the options that declare the param `name`, or list it in `uses`. The key `selector` selects the
/// option.
void only_with_options(Key& key, const std::string& selector, const AnyChoices& choices, const std::string& name);

/// Declares the key `name` for a param. `values_of` returns the ParamValues that store the param.
Key param_key(const Param& param, std::string name, const Access<ParamValues>& values_of);

/// Adds the params of `choices` that are in `section` itself. If `nested` is set, adds those in its subsections
/// instead. Adds each param once. `values_of` returns the ParamValues that store the params.
void add_params(Keys& keys, OnResume on_resume, const std::string& section, bool nested, const AnyChoices& choices,
                const std::string& selector, const Access<ParamValues>& values_of);

/// Adds a key that the run chooses while it is `auto`. has_value compares the value that it has then.
template <class S, class T>
Key& add_auto(Section<S>& section, const std::string& name, AutoValue<T> S::*member, std::string meaning) {
  const Type<T> type = type_of<T>();
  Key& key = section.add(OnResume::fixed, name, member, word_or("auto", S{}.*member, type), std::move(meaning));
  key.fill = {};  // a run chooses, since it may take the value of its checkpoint
  key.effective = [print = type.print, value = section.access().at(member)](const Recipe& recipe) {
    return std::vector<std::string>{print(value(recipe).value)};
  };
  return key;
}

}  // namespace qrl::config
