// Owns the list of the page's parts as the build makes it of their files (src/embed.cmake).
#pragma once

#include <span>

#include "base/embedded_file.h"

namespace qrl::report {

std::span<const base::EmbeddedFile> page_files();

}  // namespace qrl::report
