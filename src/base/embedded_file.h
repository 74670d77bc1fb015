// Owns the type of a file that src/embed.cmake embeds.
#pragma once

#include <span>
#include <string_view>

namespace qrl::base {

struct EmbeddedFile {
  std::string_view name, text;
};

}  // namespace qrl::base
