#include "config/keys/key.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "config/words.h"

namespace qrl::config {

namespace {

/// Compares a value with a bound, which is a number or a key's name. null and auto are within every bound.
bool is_in_bound(const std::string& value, const Keys& keys, const Recipe& recipe, std::string_view word,
                 const std::string& text) {
  const Key* other = keys.find(text);
  const std::string bound = other == nullptr ? text : other->print(recipe);
  if (value == "null" || value == "auto" || bound == "null" || bound == "auto") return true;
  const double difference = std::stod(value) - std::stod(bound);
  return word == "above " ? difference > 0 : word == "at least " ? difference >= 0 : difference <= 0;
}

/// Returns whether `values` ("A, B or C" or "other than A") allows a printed value.
bool is_listed(const std::string& value, std::string_view values) {
  constexpr std::string_view kOther = "other than ";
  const bool excludes = values.starts_with(kOther);
  if (excludes) values.remove_prefix(kOther.size());
  for (const std::string_view part : split(values, ", ")) {
    for (const std::string_view word : split(part, " or ")) {
      if (word == value) return !excludes;
    }
  }
  return excludes;
}

}  // namespace

bool has_value(const Key& key, const Recipe& recipe, std::string_view values) {
  if (values == "default" || values == "changed")
    return key.equal(recipe, key.keys->defaults()) == (values == "default");
  const std::vector<std::string> effective = key.effective ? key.effective(recipe) : std::vector{key.print(recipe)};
  return std::any_of(effective.begin(), effective.end(), [&](const std::string& value) {
    if (values == "set" || values == "unset") return (value == "null" || value == "[]") == (values == "unset");
    for (const std::string_view word : {"above ", "at least ", "at most "}) {
      if (values.starts_with(word))
        return is_in_bound(value, *key.keys, recipe, word, std::string(values.substr(word.size())));
    }
    return is_listed(value, values);
  });
}

bool Key::acts(const Recipe& recipe) const {
  if (condition.key.empty()) return true;
  return condition.holds ? condition.holds(recipe) : has_value(*keys->find(condition.key), recipe, condition.values);
}

Key& Key::only_with(const std::string& other, const std::string& values) {
  condition = {other, values};
  return *this;
}

Key& Key::needs(std::string when, std::string other, std::string values, std::string advice) {
  requirements.push_back({std::move(when), std::move(other), std::move(values), std::move(advice)});
  return *this;
}

Key& Key::unset_is(const std::string& value) {
  unset = value;
  fill = [keys = keys, name = name, value](Recipe& recipe) {
    const Key& key = *keys->find(name);
    const Key* other = keys->find(value);
    if (key.print(recipe) != "null" || !key.acts(recipe)) return;
    key.read(*parse_own_yaml(other == nullptr ? value : other->print(recipe), name), recipe);
  };
  return *this;
}

Key& Key::unset_by(const AnyChoices& choices) {
  std::string first;
  for (const Option* one : choices.all()) {
    const std::string value = one->default_of(name), shown = value == "null" ? "none" : value;
    if (first.empty()) unset = first = shown;
    else if (shown != first) unset += "; " + one->word + " " + shown;
  }
  if (unset.empty()) unset = "none";
  fill = [keys = keys, name = name, read = read, print = print](Recipe& recipe) {
    for (const auto& [key, option] : keys->selected_options(recipe)) {
      const std::string value = option == nullptr ? "null" : option->default_of(name);
      if (value != "null" && print(recipe) == "null") read(*parse_own_yaml(value, name), recipe);
    }
  };
  return *this;
}

const Key* Keys::find(std::string_view name) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Key& key) { return key.name == name; });
  return found == all_.end() ? nullptr : &*found;
}

Key& Keys::at(std::string_view name) { return *std::ranges::find(all_, name, &Key::name); }

bool Keys::is_section(std::string_view name) const {
  return std::any_of(names_.begin(), names_.end(), [&](const std::string& key) {
    return name.empty() || (key.size() > name.size() && key.starts_with(name) && key[name.size()] == '.');
  });
}

Key& Keys::insert(std::size_t place, Key key) {
  key.keys = this;
  const auto at = static_cast<std::ptrdiff_t>(place);
  names_.insert(names_.begin() + at, key.name);
  return *all_.insert(all_.begin() + at, std::move(key));
}

Key& Keys::add(Key key) { return insert(all_.size(), std::move(key)); }

Key& Keys::add_behind(std::string_view other, Key key) {
  const auto place = std::ranges::find(all_, other, &Key::name) - all_.begin();
  return insert(static_cast<std::size_t>(place + 1), std::move(key));
}

Key& Keys::add_to_section(Key key) {
  const std::string section = key.name.substr(0, key.name.rfind('.') + 1);
  const auto last =
      std::find_if(all_.rbegin(), all_.rend(), [&](const Key& one) { return one.name.starts_with(section); });
  const auto place = last == all_.rend() ? all_.end() : last.base();
  return insert(static_cast<std::size_t>(place - all_.begin()), std::move(key));
}

}  // namespace qrl::config
