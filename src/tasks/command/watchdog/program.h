// Owns the bytes of the watchdog's program, which the build puts here (src/embed.cmake).
#pragma once

#include <string_view>

#include "base/embedded_file.h"

namespace qrl::tasks {

std::span<const base::EmbeddedFile> watchdog_files();

/// The executable of watchdog/main.cpp.
inline std::string_view watchdog_program() { return watchdog_files().front().text; }

}  // namespace qrl::tasks
