#include "config/keys/choice_keys.h"

#include <algorithm>

#include "base/text.h"
#include "config/faults.h"

namespace qrl::config {

Type<std::string> word_of(const Choices& choices) {
  std::vector<std::pair<std::string, std::string>> words;
  for (const Choice* one : choices.all) words.emplace_back(one->word, one->word);
  return choice<std::string>(std::move(words));
}

std::string_view default_of(const Choice& choice, std::string_view key) {
  for (const KeyDefault& one : choice.defaults) {
    if (one.key == key) return one.value;
  }
  return "null";
}

namespace {

std::vector<std::string> words_that(const Choices& choices, const std::function<bool(const Choice&)>& holds) {
  std::vector<std::string> words;
  for (const Choice* one : choices.all) {
    if (holds(*one)) words.emplace_back(one->word);
  }
  return words;
}

}  // namespace

Key& Key::unset_by(const std::string& selector, const Choices& choices) {
  const auto shown = [&](const Choice& one) {
    const std::string_view value = default_of(one, name);
    return std::string(value == "null" ? "none" : value);
  };
  const std::string first = choices.all.empty() ? "none" : shown(*choices.all.front());
  unset = first;
  for (const Choice* one : choices.all) {
    if (shown(*one) != first) unset += "; " + std::string(one->word) + " " + shown(*one);
  }
  fill = [name = name, read = read, print = print, &choices, selector](Recipe& recipe) {
    const Choice* chosen = choices.find(recipe.keys->find(selector)->print(recipe));
    if (chosen == nullptr || print(recipe) != "null") return;
    const std::string_view value = default_of(*chosen, name);
    Faults none;
    if (value != "null") (void)read(*parse_yaml(value, {name, false}, none), recipe);
  };
  return *this;
}

std::vector<std::string> words_with_own(const Choices& choices, const std::string& name) {
  return words_that(choices, [&](const Choice& one) {
    return std::any_of(one.keys.begin(), one.keys.end(), [&](const OwnKey& own) { return own.name == name; });
  });
}

void only_where_used(Key& key, const std::string& selector, const Choices& choices) {
  const auto is_used = [&](const Choice& one) {
    return std::find(one.uses.begin(), one.uses.end(), key.name) != one.uses.end();
  };
  key.only_with(selector, base::joined(words_that(choices, is_used), " or "));
}

namespace {

/// Returns the position after the section's last key, which losses and corrections may share; else the end.
std::vector<Key>::const_iterator place_of(const std::string& name, const std::vector<Key>& list) {
  const std::string section = name.substr(0, name.rfind('.') + 1);
  const auto last =
      std::find_if(list.rbegin(), list.rend(), [&](const Key& key) { return key.name.starts_with(section); });
  return last == list.rend() ? list.end() : last.base();
}

}  // namespace

void add_own(std::vector<Key>& list, const std::string& section, bool nested, const Choices& choices,
             const std::string& selector, OnResume on_resume) {
  const auto values_of = [](auto& recipe) -> auto& { return recipe.own; };
  std::set<std::string> added;
  for (const Choice* one : choices.all) {
    for (const OwnKey& own : one->keys) {
      const bool inside = own.name.starts_with(section + ".");
      if (!inside || (own.name.find('.', section.size() + 1) != std::string::npos) != nested) continue;
      if (!added.insert(own.name).second) continue;
      Key& key = *list.insert(place_of(own.name, list), own_key(own, own.name, values_of));
      key.on_resume = on_resume;
      key.only_with(selector, base::joined(words_with_own(choices, own.name), " or "));
    }
  }
}

}  // namespace qrl::config
