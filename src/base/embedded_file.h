// Owns the type of an embedded file (src/embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace qrl::base {

struct EmbeddedFile {
  std::string_view name, text;
};

}  // namespace qrl::base
