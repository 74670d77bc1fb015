// Owns the part of Jinja that chat templates are written in: runs a template on a conversation, as transformers does.
// Whatever it does not know is refused, never passed over. Knows no model's template.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/jinja/values.h"

namespace qrl::data::jinja {

struct Run;

/// Statements but include, import, call and filter blocks; the operators, filters, tests, methods and functions that
/// published chat templates use. Time, memory and depth of a run are bounded.
class Template {
 public:
  /// Throws Unsupported for text that is no Jinja, and for tags that are not known here. Other things that are not
  /// known (functions, filters, …) are errors only when a conversation runs through them.
  explicit Template(const std::string& text);

  /// Runs the template with these variables; others are undefined. `strftime_now is defined` is false, and its day is
  /// 26 Jul 2024, so that a run repeats: our choice. Throws Unsupported.
  Text render(const std::vector<std::pair<std::string, Value>>& variables) const;

  /// Whether it has {% generation %}.
  bool marks_generation() const noexcept { return marks_generation_; }

 private:
  std::function<void(Run&)> body_;
  std::vector<std::string> names_;  ///< of its variables
  bool marks_generation_ = false;
};

}  // namespace qrl::data::jinja
