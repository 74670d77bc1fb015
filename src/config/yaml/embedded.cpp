#include "config/yaml/embedded.h"

#include <deque>
#include <string>
#include <utility>

namespace qrl::config {

YamlPtr embedded_yaml(const base::EmbeddedFile& file) {
  Faults faults;
  YamlPtr root = parse_yaml(file.text, {std::string(file.name)}, faults);
  faults.raise();
  return root;
}

std::string_view kept_text(std::string text) {
  static std::deque<std::string> texts;
  return texts.emplace_back(std::move(text));
}

std::string_view kept_text(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::sequence) return kept_text(node.text);
  std::string list;
  for (const YamlPtr& item : node.items) list += (list.empty() ? "" : ", ") + std::string(kept_text(*item));
  return kept_text("[" + list + "]");
}

}  // namespace qrl::config
