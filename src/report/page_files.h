// The page's embedded files, which the build lists (src/embed.cmake).
#pragma once

#include <span>

#include "base/embedded_file.h"

namespace qrl::report {

std::span<const base::EmbeddedFile> page_files();

}  // namespace qrl::report
