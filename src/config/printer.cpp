#include "config/printer.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "config/words.h"

namespace qrl::config {

std::string resolved_yaml(const Keys& keys, const Recipe& recipe, const std::map<std::string, std::string>* origins) {
  constexpr std::size_t kCommentColumn = 56;
  std::string yaml;
  std::vector<std::string_view> open;  // sections that contain the line written last
  for (const Key& key : keys.all()) {
    const std::vector<std::string_view> parts = split(key.name, ".");
    const std::size_t num_sections = parts.size() - 1;
    std::size_t shared = 0;
    while (shared < num_sections && shared < open.size() && parts[shared] == open[shared]) ++shared;
    for (std::size_t i = shared; i <= num_sections; ++i) {
      yaml.append(2 * i, ' ').append(parts[i]).append(i < num_sections ? ":\n" : ": ");
    }
    yaml += key.print(recipe);
    if (origins != nullptr) {
      const auto origin = origins->find(key.name);
      const std::size_t width = yaml.size() - yaml.rfind('\n') - 1;
      yaml.append(width + 2 < kCommentColumn ? kCommentColumn - width : 2, ' ').append("# ");
      yaml += origin == origins->end() ? "default" : origin->second;
    }
    yaml += "\n";
    open.assign(parts.begin(), parts.end() - 1);
  }
  return yaml;
}

namespace {

/// Lists changed keys for which `holds` returns true and that have an effect in either recipe.
std::vector<KeyChange> changes_where(const Keys& keys, const std::function<bool(const Key&)>& holds,
                                     const Recipe& before, const Recipe& after) {
  std::vector<KeyChange> changes;
  for (const Key& key : keys.all()) {
    std::string was = key.print(before), is = key.print(after);
    if (holds(key) && was != is && (key.acts(before) || key.acts(after)))
      changes.push_back({key.name, std::move(was), std::move(is), key.on_resume == OnResume::allow_change});
  }
  return changes;
}

}  // namespace

std::vector<KeyChange> changes_on_resume(const Keys& keys, const Recipe& before, const Recipe& after) {
  return changes_where(
      keys, [](const Key& key) { return key.on_resume != OnResume::free; }, before, after);
}

std::vector<KeyChange> changes_among(const Keys& keys, std::span<const std::string_view> names, const Recipe& before,
                                     const Recipe& after) {
  const auto is_named = [&](const Key& key) {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return name.ends_with('.') ? key.name.starts_with(name) : key.name == name;
    });
  };
  return changes_where(keys, is_named, before, after);
}

std::string default_text(const Keys& keys, const Key& key) {
  const std::string value = key.print(keys.defaults());
  return value == "null" ? "null (" + key.unset + ")" : value;
}

std::string meaning_text(const Key& key) {
  const Condition& needed = key.condition;
  return key.meaning + (needed.key.empty() ? "" : " (only with " + needed.key + " " + needed.values + ")");
}

std::string keys_help(const Keys& keys) {
  std::size_t width = 0;
  for (const std::string& name : keys.names()) width = std::max(width, name.size());
  std::string help;
  for (const Key& key : keys.all()) {
    help += key.name + std::string(width - key.name.size(), ' ') + "  " + key.type + ", default " +
            default_text(keys, key) + "  " + meaning_text(key) + "\n";
  }
  return help;
}

}  // namespace qrl::config
