// Owns the chat templates built into the program (data/templates; embed.cmake writes the source).
#pragma once

#include <span>
#include <string_view>

namespace qrl::data {

struct EmbeddedTemplate {
  std::string_view name;  ///< "qwen3", …: a word of data.chat_template
  std::string_view text;  ///< in Jinja
};

/// Ordered by name.
std::span<const EmbeddedTemplate> embedded_templates();

}  // namespace qrl::data
