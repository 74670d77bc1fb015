// Owns the helpers that declare keys, and the functions that add sections with files of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "config/keys/key_types.h"

namespace qrl::config {

using List = std::vector<Key>;

/// Returns an accessor of a struct's member: at(&Recipe::optim, &OptimRecipe::lr).
template <class Path, class Member>
auto at(Path path, Member member) {
  return [path, member](auto& recipe) -> decltype(auto) { return (std::invoke(path, recipe).*member); };
}

/// Declares a key whose member is a T, or an optional T. If `unset` is given, an empty text is null.
template <class Path, class T>
Key key(std::string name, Path member, Type<T> type, std::string meaning, std::string unset = {}) {
  using Member = std::remove_cvref_t<decltype(member(std::declval<Recipe&>()))>;
  constexpr bool kPlain = std::is_same_v<Member, T>;
  static_assert(kPlain || std::is_same_v<Member, std::optional<T>>);
  Key key{std::move(name), type.text, std::move(meaning), std::move(unset)};
  key.read = [member, read = type.read](const YamlNode& node, Recipe& recipe) { member(recipe) = read(node); };
  key.reset = [member](Recipe& recipe) { member(recipe) = member(recipe.keys->defaults()); };
  key.equal = [member](const Recipe& one, const Recipe& other) { return member(one) == member(other); };
  key.print = [member, print = type.print, unset_if_empty = !key.unset.empty()](const Recipe& recipe) -> std::string {
    if constexpr (!kPlain) return member(recipe) ? print(*member(recipe)) : "null";
    else if constexpr (!std::is_same_v<T, std::string>) return print(member(recipe));
    else return unset_if_empty && member(recipe).empty() ? "null" : print(member(recipe));
  };
  if constexpr (requires(Member value) { value.is_auto; }) {
    key.fill = [member](Recipe& recipe) {  // on the CPU, auto is a constant, so the recipe states it
      if (!learns_on_gpu(recipe)) member(recipe).is_auto = false;
    };
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

/// Adds a section's keys to `list`. `path` is the accessor of the section's struct.
template <class Path>
class Section {
 public:
  Section(List& list, std::string name, Path path) : list_(list), name_(std::move(name)), path_(path) {}

  /// Declares "section.name". The reference is valid until the next key is added.
  template <class Member, class T>
  Key& add(OnResume on_resume, const std::string& name, Member member, Type<T> type, std::string meaning,
           std::string unset = {}) {
    Key& added = list_.emplace_back(
        key(name_ + "." + name, at(path_, member), std::move(type), std::move(meaning), std::move(unset)));
    added.on_resume = on_resume;
    added.condition = condition_;
    return added;
  }
  /// Declares a key of the member's usual type (type_of).
  template <class Struct, class Member>
  Key& add(OnResume on_resume, const std::string& name, Member Struct::*member, std::string meaning,
           std::string unset = {}) {
    return add(on_resume, name, member, type_of<Member>(), std::move(meaning), std::move(unset));
  }
  /// Sets the condition of the keys added from here on.
  void only_with(Condition condition) { condition_ = std::move(condition); }
  void only_with(const std::string& other, const std::string& values) { condition_ = condition_of(other, values); }
  /// Returns the section "section.name" with struct `member`.
  template <class Member>
  auto inner(const std::string& name, Member member) const {
    return config::Section(list_, name_ + "." + name, at(path_, member));
  }
  const std::string& name() const { return name_; }
  const Path& path() const { return path_; }
  List& list() const { return list_; }

 private:
  List& list_;
  std::string name_;
  Path path_;
  Condition condition_ = {};
};

/// Restricts `key` to the options that declare the param `name`, or list it in `uses`. The key `selector` selects the
/// option.
void only_with_options(Key& key, const std::string& selector, const AnyChoices& choices, const std::string& name);

/// Adds the params of `choices`, each once: those of `section` itself, or if `nested`, those of its subsections.
void add_params(List& list, OnResume on_resume, const std::string& section, bool nested, const AnyChoices& choices,
                const std::string& selector);

/// Declares a param's key `name`. `values_of(recipe)` returns the ParamValues that store the param.
template <class ValuesOf>
Key param_key(const Param& param, std::string name, ValuesOf values_of) {
  Key key{std::move(name), {}, param.meaning, {}};
  key.reset = [param, values_of](Recipe& recipe) { values_of(recipe).set(param, param.default_value); };
  key.equal = [param, values_of](const Recipe& one, const Recipe& other) {
    return values_of(one).value(param) == values_of(other).value(param);
  };
  const auto declare = [&]<class T>(const Type<T>& type) {
    key.type = type.text;
    key.read = [param, values_of, read = type.read](const YamlNode& node, Recipe& recipe) {
      values_of(recipe).set(param, read(node));
    };
    key.print = [param, values_of, print = type.print](const Recipe& recipe) {
      return print(std::get<T>(values_of(recipe).value(param)));
    };
  };
  if (const auto* range = std::get_if<Range>(&param.type)) {
    declare(real(*range));
  } else if (const auto* integers = std::get_if<Param::Integers>(&param.type)) {
    declare(integer(integers->low, integers->high));
  } else if (const auto* words = std::get_if<Param::Words>(&param.type)) {
    std::vector<std::pair<std::string, std::string>> values;
    for (const std::string& word : *words) values.emplace_back(word, word);
    declare(one_of(std::move(values)));
  } else {
    declare(type_of<bool>());
  }
  return key;
}

/// Adds a task generator's keys, without `size` if `is_endless`. The section's struct is a GeneratorRecipe.
template <class AnySection>
void add_generator(OnResume on_resume, AnySection section, const Choices<tasks::Generator>& generators,
                   const std::string& unset_seed, bool is_endless = false) {
  constexpr std::int64_t kMaxTasks = 10'000'000;  // tasks are held in memory
  using G = GeneratorRecipe;
  const std::string prefix = section.name() + ".", task = prefix + "task";
  if (!is_endless) section.add(on_resume, "size", &G::size, integer(0, kMaxTasks), "prompts").only_with(task, "set");
  Key& kind = section.add(on_resume, "task", &G::task, option_of(generators), "kind of task", "no generator");
  if (!is_endless) kind.needs("set", prefix + "size", "above 0", "say how many tasks to make");
  section.add(on_resume, "seed", &G::seed, "seed of the tasks").unset_is(unset_seed).only_with(task, "set");
  std::set<std::string> added;
  for (const Option* one : generators.all()) {
    for (const Param& param : one->params) {
      if (!added.insert(param.name).second) continue;
      Key& key = section.list().emplace_back(param_key(param, prefix + param.name, at(section.path(), &G::own)));
      key.on_resume = on_resume;
      only_with_options(key, task, generators, param.name);
      if (!param.at_most.empty()) key.needs("", prefix + param.at_most, "at least " + key.name, "set both");
    }
  }
}

void add_quant(List& list);
/// Adds algorithm and rollout_correction.
void add_objective(List& list, const Catalog& catalog);
void add_reward(List& list, const Choices<tasks::VerifierChoice>& verifiers);

inline constexpr const char* kCommandVerifier = "command";

/// Returns whether a GPU reads the sampler's matrices. Rotation is unsupported on GPUs.
bool reads_matrices_on_gpu(const Recipe& recipe);

}  // namespace qrl::config
