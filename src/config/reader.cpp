#include "config/reader.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "base/ascii.h"
#include "base/error.h"
#include "base/shipped_files.h"
#include "base/text.h"
#include "config/keys/other_trainers.h"
#include "config/yaml/scalars.h"

namespace qrl::config {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxIncludes = 16;
constexpr std::string_view kInclude = "include";

std::string place(const YamlSource& source, int line, const std::string& key) {
  const std::string where = source.at(line);
  return !source.has_lines && source.name == "--set " + shown_name(key) ? where : where + ": " + shown_name(key);
}

}  // namespace

bool read_bytes(const fs::path& file, std::string& bytes) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return false;
  std::ifstream stream(file, std::ios::binary);
  bytes.resize(kMaxYamlBytes + 1);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return !stream.bad() && (stream.eof() || bytes.size() > kMaxYamlBytes);
}

Reader::Reader(const Keys& keys, Recipe& recipe, std::string whole) : keys_(keys), recipe_(recipe) {
  origins_.whole = std::move(whole);
}

void Reader::add_file(std::string_view yaml, const fs::path& file, const fs::path& directory) {
  const YamlSource source{shown_name(file.string()), true, directory, keys_.examples().json_lines};
  if (base::is_lfs_pointer(yaml)) {
    errors_.add(source.name, "a recipe", base::kLfsPointer, "");
    is_whole_ = false;
    return;
  }
  const YamlPtr root = parse_yaml(yaml, source, errors_);
  if (root == nullptr) {
    is_whole_ = false;
    return;
  }
  if (root->kind != YamlNode::Kind::map || root->members.empty()) {
    errors_.add(
        source.at(root->line), "a map of sections such as " + keys_.examples().sections,
        root->kind == YamlNode::Kind::map || root->kind == YamlNode::Kind::null ? "nothing" : shown_value(*root),
        "see docs/reference/recipe-keys.md");
    return;
  }
  std::error_code no_path;
  chain_.push_back(fs::weakly_canonical(file, no_path));
  for (const YamlMember& member : root->members) {
    if (member.name == kInclude) include(member, source);
  }
  chain_.pop_back();
  for (const YamlMember& member : root->members) {
    if (member.name != kInclude) set_member(member, "", source);
  }
}

void Reader::add_override(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  const std::string name = argument.substr(0, equals);
  const YamlSource source{"--set " + shown_name(name), false};
  if (equals == std::string::npos || name.empty()) {
    errors_.add(source.name, "KEY=VALUE", base::quoted(argument), "as in --set " + keys_.examples().setting);
    return;
  }
  const std::string value = argument.substr(equals + 1);
  const std::string_view trimmed = base::trimmed(value);
  Errors of_value;
  const YamlPtr node = parse_yaml(value, source, of_value);
  const bool may_be_text =
      node != nullptr && (node->kind == YamlNode::Kind::scalar || node->kind == YamlNode::Kind::null);
  if (!may_be_text && !trimmed.empty() && quoting_helps(name, value)) {
    errors_.add(source.name, "text", base::quoted(value) + ", which YAML does not read as text",
                "put text with ': ', '{' or '#' in quotes: --set '" + name + "=\"…\"'");
    return;
  }
  errors_.take(std::move(of_value));
  if (node == nullptr) return;
  if (node->kind == YamlNode::Kind::scalar && !node->quoted && node->text != trimmed) {
    errors_.add(source.name, "one plain value", base::quoted(value), "put text with # or --- in quotes");
    return;
  }
  if (keys_.find(name) != nullptr || keys_.is_section(name)) set(*node, name, source);
  else refuse_unknown(*node, name, source);
}

bool Reader::quoting_helps(const std::string& name, const std::string& value) const {
  const Key* key = keys_.find(name);
  return key != nullptr && key->type.starts_with("text") && !value.starts_with('"') && !value.starts_with('\'');
}

std::string Reader::place_of(const Key& key) const {
  const std::string place = origins_.places.at(key.name), end = ": " + key.name;
  return place.ends_with(end) ? place.substr(0, place.size() - end.size()) : place;
}

std::map<std::string, std::string> Reader::places() const {
  std::map<std::string, std::string> places;
  for (const Key& key : keys_.all())
    if (is_set(key)) places[key.name] = place_of(key);
  return places;
}

void Reader::drop_replaced() {
  for (bool found = true; found;) {
    found = false;
    for (const Key& key : keys_.all()) {
      const auto own = levels_.find(key.name), other = levels_.find(key.condition.key);
      if (own == levels_.end() || other == levels_.end() || other->second >= own->second) continue;
      if (origins_.invalid.contains(key.name) || key.acts(recipe_)) continue;
      key.reset(recipe_);
      own->second = other->second;  // makes this loop also drop keys that depend on this key
      found = origins_.places.erase(key.name) > 0 || found;
    }
  }
  for (const Key& key : keys_.all())
    if (!is_set(key) && !key.acts(recipe_)) key.reset(recipe_);
}

void Reader::add_mode(const Option& mode, Recipe& of_mode) {
  const YamlSource source{std::string(kModePlace) + mode.word, false};
  for (const KeyDefault& one : mode.defaults) {
    const Key& key = *keys_.find(one.key);
    const YamlPtr value = parse_own_yaml(one.value, one.key);
    key.read(*value, of_mode);
    const auto has_modes_value = [&](const Key& other) { return other.equal(recipe_, of_mode); };
    if (!one.with.empty() && !has_modes_value(*keys_.find(one.with))) continue;
    if (!is_set(key)) set_key(*value, key, source);
    else if (!has_modes_value(key))
      mode_overrides_.push_back({key.name, key.print(of_mode), key.print(recipe_), place_of(key)});
  }
}

void Reader::add_absent() {
  const YamlSource source{"a version without the key", false};
  for (const Key& key : keys_.all()) {
    if (!key.absent_in_record.empty() && !is_set(key))
      set_key(*parse_own_yaml(key.absent_in_record, key.name), key, source);
  }
}

void Reader::fill(const Recipe& said) {
  for (const Key& key : keys_.all()) {
    if (key.fill) key.fill(recipe_);
    if (!key.equal(said, recipe_)) origins_.places.erase(key.name);  // `fill` replaced null: the value has no origin
  }
}

void Reader::include(const YamlMember& member, const YamlSource& source) {
  const std::string where = source.at(member.line) + ": " + std::string(kInclude);
  std::string word;
  try {
    word = read_text(*member.value);
  } catch (const ParseError& error) {
    errors_.add(where, "one file name", error.got, error.advice);
    return;
  }
  fs::path file = (source.directory / word).lexically_normal();
  try {
    if (base::is_shipped_recipe(word)) file = base::shipped_recipe(word);
  } catch (const base::Error& error) {
    is_whole_ = false;
    errors_.add(where, "a recipe that comes with qrl-train", error.what(), "");
    return;
  }
  const std::string name = shown_name(file.string());
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(file, error);
  if (std::find(chain_.begin(), chain_.end(), canonical) != chain_.end()) {
    errors_.add(where, "no cycle of includes", name + ", which is being read already", "delete one include");
    return;
  }
  if (chain_.size() >= kMaxIncludes) {
    errors_.add(where, "at most " + std::to_string(kMaxIncludes) + " nested includes", "a deeper include", "");
    return;
  }
  std::string bytes;
  if (error || !read_bytes(file, bytes)) {
    is_whole_ = false;
    errors_.add(where, "a readable file", name, "use a path relative to the including file's folder");
    return;
  }
  add_file(bytes, file, file.parent_path());
}

void Reader::set_member(const YamlMember& member, const std::string& section, const YamlSource& source) {
  const std::string name = section.empty() ? member.name : section + "." + member.name;
  if (member.name.find('.') != std::string::npos || member.name.empty()) {
    const std::string last = member.name.substr(member.name.rfind('.') + 1);
    errors_.add(source.at(member.line) + ": " + shown_name(name), "a name without a dot", shown_name(member.name),
                keys_.find(name) != nullptr ? "nest it: the value goes to " + last + " inside its section"
                                            : advice_for_unknown_key(keys_, name));
    return;
  }
  if (keys_.find(name) != nullptr || keys_.is_section(name)) set(*member.value, name, source);
  else refuse_unknown(*member.value, name, source, member.line);
}

void Reader::set(const YamlNode& node, const std::string& name, const YamlSource& source) {
  if (const Key* key = keys_.find(name)) {
    set_key(node, *key, source);
  } else if (node.kind == YamlNode::Kind::map) {
    for (const YamlMember& member : node.members) set_member(member, name, source);
  } else if (node.kind != YamlNode::Kind::null || !source.has_lines) {
    std::string first;
    for (const std::string& known : keys_.names()) {
      if (!known.starts_with(name + ".")) continue;
      if (first.empty()) first = known;
      origins_.invalid.insert(known);
    }
    errors_.add(place(source, node.line, name), "a section of keys", shown_value(node), "such as " + first);
  }
}

void Reader::set_key(const YamlNode& node, const Key& key, const YamlSource& source) {
  const std::string where = place(source, node.line, key.name);
  const bool is_null = node.kind == YamlNode::Kind::null;
  bool is_valid = true;
  try {
    if (is_null && key.unset.empty())
      throw ParseError{"null", "leave the key out for its default, " + key.print(keys_.defaults())};
    if (is_null) key.reset(recipe_);
    else key.read(node, recipe_);
  } catch (const ParseError& error) {
    is_valid = false;
    origins_.invalid.insert(key.name);
    const std::string foreign = advice_for_value(key.name, node.text);
    errors_.add(where, key.type, error.got, foreign.empty() ? error.advice : foreign);
  }
  if (is_valid && key.anchor) {
    for (const Key& one : keys_.all())  // resets keys whose values an earlier value of this key implied
      if (one.condition.key == key.name && !is_set(one)) one.reset(recipe_);
    key.anchor(recipe_, source.directory);
  }
  origins_.places[key.name] = where;
  levels_[key.name] = source.has_lines ? chain_.size() + 1 : 0;
}

void Reader::refuse_unknown(const YamlNode& node, const std::string& name, const YamlSource& source, int line) {
  if (node.kind == YamlNode::Kind::map && !node.members.empty() && !errors_.full()) {
    for (const YamlMember& member : node.members) {
      refuse_unknown(*member.value, name + "." + member.name, source, member.line);
    }
    return;
  }
  const std::string advice = errors_.full() ? "" : advice_for_unknown_key(keys_, name);
  errors_.add_unknown_key(place(source, line, name), advice);
  // If the advice names a key, that key's rules are not checked.
  for (const std::string& key : keys_.names()) {
    if (advice.find(key) != std::string::npos) origins_.invalid.insert(key);
  }
}

}  // namespace qrl::config
