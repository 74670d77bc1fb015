#include "config/keys/other_trainers.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"
#include "config/yaml/yaml_tree.h"

namespace qrl::config {

namespace {

YamlPtr table(const std::string& name) {
  const auto files = table_files();
  const auto found = std::ranges::find(files, std::string_view(name), &base::EmbeddedFile::name);
  QRL_INVARIANT(found != files.end(), "tables of other trainers", name, "no such file");
  return parse_own_yaml(found->text, name);
}

std::vector<Alias> read_rows() {
  std::vector<Alias> rows;
  const YamlPtr root = table("other_trainers.yaml");
  for (const YamlMember& row : root->members) {
    const std::vector<YamlPtr>& cells = row.value->items;
    QRL_INVARIANT(!cells.empty() && cells.size() <= 3, "other_trainers.yaml", "[key], [key, note] or [key, note, rule]",
                  row.name);
    const auto cell = [&](std::size_t i) { return i < cells.size() ? cells[i]->text : ""; };
    rows.push_back({row.name, cell(0), cell(1), cell(2)});
  }
  return rows;
}

std::vector<ForeignValue> read_values() {
  std::vector<ForeignValue> values;
  const YamlPtr root = table("other_values.yaml");
  for (const YamlMember& name : root->members) {
    for (const YamlMember& row : name.value->members) {
      const std::vector<YamlPtr>& cells = row.value->items;
      QRL_INVARIANT(cells.size() == 2, "other_values.yaml", "[settings, note]", name.name + ": " + row.name);
      values.push_back({name.name, row.name, cells[0]->text, cells[1]->text, cells[0]->kind != YamlNode::Kind::null});
    }
  }
  return values;
}

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

std::string normalized(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string out = base::lower_case(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

std::string advice_of(const Alias& alias) {
  if (alias.key.empty()) return "it has no counterpart here: " + alias.note;
  return "here it is " + alias.key + (alias.note.empty() ? "" : " (" + alias.note + ")");
}

}  // namespace

const std::vector<ForeignValue>& foreign_values() {
  static const std::vector<ForeignValue> values = read_values();
  return values;
}

YamlPtr foreign_defaults() { return table("other_defaults.yaml"); }

std::string advice_for_value(std::string_view key, std::string_view value) {
  for (const ForeignValue& row : foreign_values()) {
    if (row.name != key || row.value != value) continue;
    if (!row.has_counterpart) return "it has no counterpart here: " + row.note;
    if (row.settings.empty()) return "leave the key out: " + row.note;
    return "here it is " + row.settings + (row.note.empty() ? "" : " (" + row.note + ")");
  }
  return {};
}

std::vector<Alias> aliases(const Keys& keys) {
  static const std::vector<Alias> rows = read_rows();
  std::vector<Alias> all = rows;
  for (const Option* one : keys.options()) all.insert(all.end(), one->aliases.begin(), one->aliases.end());
  return all;
}

std::string advice_for_unknown_key(const Keys& keys, std::string_view name) {
  constexpr std::size_t kLongestName = 200;
  if (name.empty() || name.size() > kLongestName) return {};
  const std::string plain = normalized(name);
  const std::string last(last_part(plain));
  const std::vector<Alias> known = aliases(keys);

  // Tries aliases that match the full name, its end of several parts, or its whole section (NAME.*), before aliases
  // that match only the last part.
  const auto is_whole = [&](const Alias& alias) {
    const std::string_view called = alias.name;
    if (called.ends_with(".*")) return plain.starts_with(called.substr(0, called.size() - 1));
    const bool is_dotted = called.find('.') != std::string_view::npos;
    return (called == plain && plain != last) || (is_dotted && plain.ends_with("." + std::string(called)));
  };
  if (const auto whole = std::find_if(known.begin(), known.end(), is_whole); whole != known.end()) {
    return advice_of(*whole);
  }
  // Finds a full key within a longer name, such as section.key in trainer.section.key.
  for (std::size_t dot = plain.find('.'); dot != std::string::npos; dot = plain.find('.', dot + 1)) {
    const std::string tail = plain.substr(dot + 1);
    if (tail.find('.') != std::string::npos && keys.find(tail) != nullptr) return "here it is " + tail;
  }
  // If the nearest key differs only in its section, suggests it before other trainers' names.
  const std::string nearest = base::nearest_name(plain, keys.names());
  if (plain != last && !nearest.empty() && last_part(nearest) == last) return "did you mean " + nearest + "?";
  const auto match = std::find_if(known.begin(), known.end(),
                                  [&](const Alias& alias) { return alias.name == last || alias.name == plain; });
  if (match != known.end()) return advice_of(*match);
  std::vector<std::string> same, last_parts;
  for (const std::string& key : keys.names()) {
    last_parts.emplace_back(last_part(key));
    if (last_parts.back() == last) same.push_back(key);
  }
  if (!same.empty() && same.size() <= 3) return "did you mean " + base::joined(same, " or ") + "?";
  if (!nearest.empty()) return "did you mean " + nearest + "?";
  const std::string nearest_last = base::nearest_name(last, last_parts);
  const auto found = std::find(last_parts.begin(), last_parts.end(), nearest_last);
  if (nearest_last.empty() || found == last_parts.end()) return "--help-all lists all keys";
  return "did you mean " + keys.names()[static_cast<std::size_t>(found - last_parts.begin())] + "?";
}

}  // namespace qrl::config
