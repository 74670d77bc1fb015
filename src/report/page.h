#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/embedded_file.h"

namespace qrl::report {

std::span<const base::EmbeddedFile> page_files();
/// Returns an embedded file of src/report/page or of uPlot; it must exist.
std::string_view page_file(std::string_view name);

/// Returns the HTML page with its data. With `live`, the page polls its server for updates.
std::string make_page(std::string_view data_json, bool live);

}  // namespace qrl::report
