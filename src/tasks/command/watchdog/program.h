// The build embeds the executable (src/embed.cmake).
#pragma once

#include <string_view>

#include "base/embedded_file.h"

namespace qrl::tasks {

std::span<const base::EmbeddedFile> watchdog_files();

inline std::string_view watchdog_program() { return watchdog_files().front().text; }

}  // namespace qrl::tasks
