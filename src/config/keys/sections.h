// Owns the table of keys: how a row is declared, and the sections that have a file of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "config/keys/key_types.h"

namespace qrl::config {

using List = std::vector<Key>;

/// Leads to a member: at(&Recipe::optim, &OptimRecipe::lr).
template <class... Members>
auto at(Members... path) {
  return [path...](auto& recipe) -> auto& { return (recipe.*....*path); };
}

/// Names a member's value type: T of an optional T.
template <class T>
struct ValueOf {
  using Type = T;
};
template <class T>
struct ValueOf<std::optional<T>> {
  using Type = T;
};

/// Declares a key whose member is a T, or an optional T.
template <class Path, class T>
Key key(std::string name, Path member, Type<T> type, std::string meaning, Unset<T> unset = {}) {
  using Member = std::remove_cvref_t<decltype(member(std::declval<Recipe&>()))>;
  constexpr bool kPlain = std::is_same_v<Member, T>;
  static_assert(std::is_same_v<typename ValueOf<Member>::Type, T>);
  Key key{std::move(name), type.text, std::move(meaning), unset.text};
  key.read = [member, read = type.read](const YamlNode& node, Recipe& recipe) { member(recipe) = read(node); };
  key.reset = [member](Recipe& recipe) { member(recipe) = member(recipe.keys->defaults()); };
  key.print = [member, print = type.print](const Recipe& recipe) -> std::string {
    if constexpr (kPlain) return print(member(recipe));
    else return member(recipe) ? print(*member(recipe)) : "null";
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
  } else if (type.anchor) {
    key.anchor = [member, anchor = type.anchor](Recipe& recipe, const auto& directory) {
      anchor(member(recipe), directory);
    };
  }
  return key;
}

/// Adds a section's keys to `list`; `path` leads to its struct.
template <class... Path>
class Section {
 public:
  Section(List& list, std::string name, Path... path) : list_(list), name_(std::move(name)), path_(path...) {}

  /// Declares "section.name"; the reference is valid until the next key.
  template <class Member, class T>
  Key& add(OnResume on_resume, const std::string& name, Member member, Type<T> type, std::string meaning,
           Unset<T> unset = {}) {
    const auto whole = std::apply([member](auto... path) { return at(path..., member); }, path_);
    Key& added =
        list_.emplace_back(key(name_ + "." + name, whole, std::move(type), std::move(meaning), std::move(unset)));
    added.on_resume = on_resume;
    added.condition = condition_;
    return added;
  }
  /// Does the same with the type that follows from the member (type_of).
  template <class Struct, class Member>
  Key& add(OnResume on_resume, const std::string& name, Member Struct::*member, std::string meaning,
           Unset<typename ValueOf<Member>::Type> unset = {}) {
    return add(on_resume, name, member, type_of<typename ValueOf<Member>::Type>(), std::move(meaning),
               std::move(unset));
  }
  /// Sets the condition of the keys added from here on.
  void only_with(Condition condition) { condition_ = std::move(condition); }
  void only_with(const std::string& other, const std::string& values) { condition_ = condition_of(other, values); }
  /// Returns the section "section.name" with struct `member`.
  template <class Member>
  Section<Path..., Member> inner(const std::string& name, Member member) const {
    return std::apply(
        [&](auto... path) { return Section<Path..., Member>(list_, name_ + "." + name, path..., member); }, path_);
  }
  template <class AnyRecipe>
  auto& of(AnyRecipe& recipe) const {
    return std::apply(
        [&recipe](auto... path) -> auto& { return at(path...)(recipe); }, path_);
  }
  List& list() const { return list_; }

 private:
  List& list_;
  std::string name_;
  std::tuple<Path...> path_;
  Condition condition_ = {};
};

/// Returns words of the options with this param.
std::vector<std::string> words_with_param(const AnyChoices& choices, const std::string& name);

/// Restricts `key` to options that list it in `uses`; the key `selector` selects one.
void only_where_used(Key& key, const std::string& selector, const AnyChoices& choices);

/// Adds params of `choices` directly in `section`, or with `nested` in its subsections, shared ones once.
void add_params(List& list, OnResume on_resume, const std::string& section, bool nested, const AnyChoices& choices,
                const std::string& selector);

/// Declares a param's key `name`; `values_of(recipe)` returns its ParamValues.
template <class ValuesOf>
Key param_key(const Param& param, std::string name, ValuesOf values_of) {
  Key key{std::move(name), {}, param.meaning, {}};
  key.reset = [param, values_of](Recipe& recipe) { values_of(recipe).set(param, param.default_value); };
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

/// Adds a task generator's keys: shared ones, then those that some generators declare. `section` leads to a
/// GeneratorRecipe.
template <class AnySection>
void add_generator(OnResume on_resume, AnySection section, const Choices<tasks::Generator>& generators,
                   const Unset<std::uint64_t>& unset_seed) {
  using G = GeneratorRecipe;
  const auto seed_if_used = [section, unset_seed](const Recipe& recipe) {
    return section.of(recipe).task.empty() ? std::nullopt : unset_seed.value(recipe);
  };
  const std::string task =
      section.add(on_resume, "task", &G::task, option_of(generators), "kind of task", {"no generator"}).name;
  section.add(on_resume, "seed", &G::seed, "seed of the tasks", {unset_seed.text, seed_if_used});
  std::set<std::string> added;
  for (const Option* one : generators.all()) {
    for (const Param& param : one->params) {
      if (!added.insert(param.name).second) continue;
      const std::string name = task.substr(0, task.rfind('.') + 1) + param.name;
      Key& key = section.list().emplace_back(param_key(
          param, name, [section](auto& recipe) -> auto& { return section.of(recipe).own; }));
      key.on_resume = on_resume;
      const std::string words = base::joined(words_with_param(generators, param.name), " or ");
      // Without a task, one rule reports all keys of the section.
      key.only_with(task, words, [section, of_task = condition_of(task, words).holds](const Recipe& recipe) {
        return section.of(recipe).task.empty() || of_task(recipe);
      });
    }
  }
}

void add_quant(List& list);
/// Adds algorithm and rollout_correction, with params of losses and corrections.
void add_objective(List& list, const Catalog& catalog);
/// Adds `reward`: verifiers' keys, the command's, and scores.
void add_reward(List& list, const Choices<tasks::VerifierChoice>& verifiers);

/// Returns whether a GPU reads the sampler's matrices, where rotation is unsupported.
bool reads_matrices_on_gpu(const Recipe& recipe);

inline constexpr std::string_view kCommandVerifier = "command";  ///< a program of the user

/// Returns whether the recipe judges with verifier `word`, for all or some data sources.
bool judges(const Recipe& recipe, std::string_view word);

}  // namespace qrl::config
