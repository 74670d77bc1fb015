// Owns the list of the page's embedded files, which the build generates (src/embed.cmake).
#pragma once

#include <span>

#include "base/embedded_file.h"

namespace qrl::report {

std::span<const base::EmbeddedFile> page_files();

}  // namespace qrl::report
