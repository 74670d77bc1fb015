#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/jinja/values.h"

namespace qrl::data::jinja {

struct Run;
using Names = std::map<std::string, int, std::less<>>;

/// Compiles a chat template and renders it like transformers. Supports the tags if, for, set, macro, generation, break
/// and continue, and the names in builtins.cpp. Limits a render's time, memory and recursion depth.
class Template {
 public:
  /// Throws Unsupported for invalid Jinja and for unknown tags. Unknown functions, filters, … are errors only when
  /// render() evaluates them.
  explicit Template(const std::string& text);

  /// Renders the template with these variables; all others are undefined. Throws Unsupported. `strftime_now is defined`
  /// is false, but strftime_now() formats the fixed date 26 Jul 2024.
  Text render(const std::vector<std::pair<std::string_view, Value>>& variables) const;

  bool marks_generation() const noexcept { return marks_generation_; }

 private:
  std::function<void(Run&)> body_;
  Names names_;
  bool marks_generation_ = false;
};

}  // namespace qrl::data::jinja
