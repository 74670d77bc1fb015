// Owns the assembly of the page from its embedded parts and the data.
#pragma once

#include <string>
#include <string_view>

namespace qrl::report {

/// Returns an embedded file of src/report/page or of uPlot, which must exist.
std::string_view page_file(std::string_view name);

/// Returns the page with its data; `live`: the page requests updates from its server.
std::string make_page(std::string_view data_json, bool live);

}  // namespace qrl::report
