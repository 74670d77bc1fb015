// Owns keys of choices: the selecting key, its defaults for null, own settings, and when a key has an effect.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "config/keys/key_types.h"

namespace qrl::config {

/// Accepts a word of `choices`, which must outlive the key.
Type<std::string> word_of(const Choices& choices);

/// Returns null's value in `key` with `choice` as YAML; "null" if none.
std::string_view default_of(const Choice& choice, std::string_view key);

/// Restricts `key` to choices that list it in `uses`; the key `selector` selects one.
void only_where_used(Key& key, const std::string& selector, const Choices& choices);

/// Returns words of the choices with this own key.
std::vector<std::string> words_with_own(const Choices& choices, const std::string& name);

/// Adds own keys of `choices` directly in `section`, or with `nested` in its subsections, shared ones once.
void add_own(std::vector<Key>& list, const std::string& section, bool nested, const Choices& choices,
             const std::string& selector, OnResume on_resume = OnResume::fixed);

/// Makes an own setting's key `name`; `values_of(recipe)` returns its OwnValues.
template <class ValuesOf>
Key own_key(const OwnKey& own, std::string name, ValuesOf values_of) {
  Key key{std::move(name), {}, own.meaning, {}};
  const auto hold = [&](const auto& type, auto to_number, auto from_number) {
    key.type = type.text;
    key.read = [own, type, to_number, values_of](const YamlNode& node, Recipe& recipe) -> std::optional<Refusal> {
      auto reading = type.read(node);
      if (auto* refusal = std::get_if<Refusal>(&reading)) return std::move(*refusal);
      values_of(recipe).set(own, to_number(std::get<0>(reading)));
      return std::nullopt;
    };
    key.print = [own, type, from_number, values_of](const Recipe& recipe) {
      return type.print(from_number(values_of(recipe).of(own)));
    };
  };
  const auto as_double = [](std::int64_t value) { return static_cast<double>(value); };
  const auto as_integer = [](double value) { return static_cast<std::int64_t>(value); };
  key.reset = [own, values_of](Recipe& recipe) { values_of(recipe).set(own, own.standard); };
  if (const auto* range = std::get_if<Range>(&own.type)) {
    hold(
        real(*range), [](double value) { return value; }, [](double value) { return value; });
  } else if (const auto* words = std::get_if<OwnKey::Words>(&own.type)) {
    std::vector<std::pair<std::string, std::int64_t>> values;
    for (std::size_t i = 0; i < words->size(); ++i) values.emplace_back((*words)[i], static_cast<std::int64_t>(i));
    hold(choice<std::int64_t>(std::move(values)), as_double, as_integer);
  } else if (const auto* integers = std::get_if<OwnKey::Integers>(&own.type)) {
    hold(integer(integers->low, integers->high), as_double, as_integer);
  } else {
    hold(
        boolean(), [](bool value) { return value ? 1.0 : 0.0; }, [](double value) { return value != 0; });
  }
  return key;
}

/// Adds a task generator's keys: shared ones, then those that some generators declare. `section` leads to a
/// GeneratorRecipe.
template <class AnySection>
void add_generator(std::vector<Key>& list, AnySection section, const Choices& generators,
                   const Unset<std::uint64_t>& unset_seed) {
  using G = GeneratorRecipe;
  const auto seed_if_used = [section, unset_seed](const Recipe& recipe) {
    return section.of(recipe).task.empty() ? std::nullopt : unset_seed.value(recipe);
  };
  const std::string task =
      section.add("task", &G::task, unset_when_empty(word_of(generators)), "kind of task", {"no generator"}).name;
  section.add("seed", &G::seed, seed(), "seed of the tasks", {unset_seed.text, seed_if_used});
  std::set<std::string> added;
  for (const Choice* one : generators.all) {
    for (const OwnKey& own : one->keys) {
      if (!added.insert(own.name).second) continue;
      const std::string name = task.substr(0, task.rfind('.') + 1) + own.name;
      Key& key = list.emplace_back(own_key(
          own, name, [section](auto& recipe) -> auto& { return section.of(recipe).own; }));
      key.on_resume = section.on_resume();
      const std::string words = base::joined(words_with_own(generators, own.name), " or ");
      // Without a task, one rule reports all keys of the section.
      key.only_with(task, words, [section, of_task = condition_of(task, words).holds](const Recipe& recipe) {
        return section.of(recipe).task.empty() || of_task(recipe);
      });
    }
  }
}

}  // namespace qrl::config
