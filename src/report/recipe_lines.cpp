#include "report/recipe_lines.h"

#include <algorithm>
#include <set>
#include <utility>

namespace qrl::report {

namespace {

constexpr std::string_view kRunFolder = "trainer.default_local_dir";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \r") - first + 1);
}

/// Returns the position of a line's comment: "#" after a blank, outside of double quotes.
std::size_t comment_at(std::string_view line) {
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && quoted) ++i;
    else if (line[i] == '"') quoted = !quoted;
    else if (line[i] == '#' && !quoted && i > 0 && line[i - 1] == ' ') return i;
  }
  return std::string_view::npos;
}

}  // namespace

std::vector<RecipeLine> read_recipe_lines(std::string_view yaml) {
  std::vector<RecipeLine> lines;
  std::vector<std::pair<std::size_t, std::string>> sections;  // the enclosing sections' indentation and name
  while (!yaml.empty()) {
    const std::size_t end = std::min(yaml.find('\n'), yaml.size());
    const std::string_view line = yaml.substr(0, end);
    yaml.remove_prefix(std::min(end + 1, yaml.size()));
    const std::size_t indent = line.find_first_not_of(' '), colon = line.find(':');
    if (indent == std::string_view::npos || line[indent] == '#' || colon == std::string_view::npos) continue;
    const std::size_t comment = comment_at(line);
    if (comment < colon) continue;
    while (!sections.empty() && sections.back().first >= indent) sections.pop_back();
    std::string key;
    for (const auto& [depth, name] : sections) key += name + ".";
    const std::string name(line.substr(indent, colon - indent));
    const std::string_view value = trimmed(line.substr(colon + 1, std::min(comment, line.size()) - colon - 1));
    if (value.empty()) {
      sections.emplace_back(indent, name);
    } else {
      const std::string_view origin = comment == std::string_view::npos ? "" : trimmed(line.substr(comment + 1));
      lines.push_back({key + name, std::string(value), std::string(origin)});
    }
  }
  return lines;
}

std::vector<KeyDifference> differing_keys(const std::vector<std::string>& yamls) {
  std::vector<std::vector<RecipeLine>> recipes;
  recipes.reserve(yamls.size());
  for (const std::string& yaml : yamls) recipes.push_back(read_recipe_lines(yaml));
  std::vector<std::string> keys;
  std::set<std::string> known = {std::string(kRunFolder)};
  for (const auto& lines : recipes) {
    for (const RecipeLine& line : lines) {
      if (known.insert(line.key).second) keys.push_back(line.key);
    }
  }
  std::vector<KeyDifference> differences;
  for (std::string& key : keys) {
    std::vector<std::string> values;
    std::set<std::string> distinct;
    for (const auto& lines : recipes) {
      values.push_back(recipe_value(lines, key));
      if (!lines.empty()) distinct.insert(values.back());
    }
    if (distinct.size() > 1) differences.push_back({std::move(key), std::move(values)});
  }
  return differences;
}

std::string recipe_value(const std::vector<RecipeLine>& lines, std::string_view key) {
  const auto found = std::ranges::find_if(lines, [&](const RecipeLine& line) { return line.key == key; });
  return found == lines.end() ? std::string() : found->value;
}

std::string without_seed(const std::vector<RecipeLine>& lines) {
  std::string text;
  for (const RecipeLine& line : lines) {
    const bool own = line.key == "seed" || line.key.ends_with(".seed") || line.key == kRunFolder ||
                     line.key == "trainer.threads" || line.key == "trainer.resume_mode";
    if (!own) text += line.key + "=" + line.value + "\n";
  }
  return text;
}

}  // namespace qrl::report
