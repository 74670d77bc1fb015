// Owns the part of Jinja that chat templates are written in: runs a template on a conversation, as transformers does.
// Whatever it does not know is refused, never passed over. Knows no model's template.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/jinja/syntax.h"

namespace qrl::data::jinja {

/// Why a template cannot be run here, or what it says itself (raise_exception).
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// if, for, set, output and comments; namespaces; strings, integers, lists and objects with the operators, filters,
/// tests and methods that templates of the supported models use. Time, depth and size of results are bounded.
class Template {
 public:
  /// Throws Unsupported for text that is no Jinja, and for tags that are not known here. Other things that are not
  /// known (macros, functions, filters, …) are errors only when a conversation runs through them.
  explicit Template(const std::string& text);

  /// What the template writes with these variables; others are undefined. Throws Unsupported.
  std::string render(const nlohmann::ordered_json& variables) const;

  /// The string literals that are not only written, each once: what it may compare a message's content with.
  std::vector<std::string> literals() const;

 private:
  Node root_;
};

}  // namespace qrl::data::jinja
