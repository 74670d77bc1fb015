#include "config/keys/other_trainers.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "config/keys/key.h"
#include "config/yaml/embedded.h"

namespace qrl::config {

namespace {

std::vector<Neighbor> read_rows() {
  std::vector<Neighbor> rows;
  const YamlPtr root = embedded_yaml(table_files().front());
  for (const YamlMember& row : root->members) {
    const std::vector<YamlPtr>& cells = row.value->items;
    QRL_INVARIANT(!cells.empty() && cells.size() <= 2, "other_trainers.yaml", "[key] or [key, note]", row.name);
    rows.push_back({kept_text(row.name), kept_text(*cells[0]), cells.size() > 1 ? kept_text(*cells[1]) : ""});
  }
  return rows;
}

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

/// Makes "--actor-learning-rate" a key: lower case, no leading dashes, '-' as '_'.
std::string normalized(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string out(name);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == '-' ? '_' : c;
  });
  return out;
}

std::string advice_of(const Neighbor& known) {
  const std::string note(known.note);
  if (known.ours.empty()) return "it has no counterpart here: " + note;
  return "here it is " + std::string(known.ours) + (note.empty() ? "" : " (" + note + ")");
}

}  // namespace

std::vector<Neighbor> neighbors(const Catalog& catalog) {
  static const std::vector<Neighbor> rows = read_rows();
  std::vector<Neighbor> all = rows;
  for (const Choices* choices : {&catalog.losses, &catalog.corrections, &catalog.modes, &catalog.generators,
                                 &catalog.verifiers, &catalog.kl_estimators, &catalog.estimators}) {
    for (const Choice* one : choices->all) all.insert(all.end(), one->neighbors.begin(), one->neighbors.end());
  }
  return all;
}

std::string advice_for_unknown_key(const Keys& keys, std::string_view name) {
  constexpr std::size_t kLongestName = 200;
  if (name.empty() || name.size() > kLongestName) return {};
  const std::string plain = normalized(name);
  const std::string last(last_part(plain));
  const std::vector<Neighbor> known_names = neighbors(keys.catalog());

  // A full name, or a section without a counterpart, is a more precise match than a part.
  const auto is_whole = [&](const Neighbor& neighbor) {
    const std::string_view called = neighbor.name;
    if (called.ends_with(".*")) return plain.starts_with(called.substr(0, called.size() - 1));
    return called == plain && plain != last;
  };
  if (const auto whole = std::find_if(known_names.begin(), known_names.end(), is_whole); whole != known_names.end()) {
    return advice_of(*whole);
  }
  // actor_rollout_ref.rollout.n contains the full key rollout.n.
  for (std::size_t dot = plain.find('.'); dot != std::string::npos; dot = plain.find('.', dot + 1)) {
    const std::string tail = plain.substr(dot + 1);
    if (tail.find('.') != std::string::npos && keys.find(tail) != nullptr) return "here it is " + tail;
  }
  // A correct name in a misspelled section precedes other trainers' use of it.
  const std::string nearest = base::nearest_name(plain, keys.names());
  if (plain != last && !nearest.empty() && last_part(nearest) == last) return "did you mean " + nearest + "?";
  const auto known = std::find_if(known_names.begin(), known_names.end(), [&](const Neighbor& neighbor) {
    return neighbor.name == last || neighbor.name == plain;
  });
  if (known != known_names.end()) return advice_of(*known);
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
