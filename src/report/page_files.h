// Owns the list of the page's parts as the build makes it of their files (src/report/embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace qrl::report {

struct PageFile {
  std::string_view name, text;
};

std::span<const PageFile> page_files();

}  // namespace qrl::report
