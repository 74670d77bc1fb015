// Owns the page as text: its parts, built into the program, put together around the data. Knows nothing of runs.
#pragma once

#include <string>
#include <string_view>

namespace qrl::report {

/// A file of src/report/page or of uPlot by its name; it must be there.
std::string_view page_file(std::string_view name);

/// The page with its data. `live`: it may ask the server that it came from.
std::string make_page(std::string_view data_json, bool live);

}  // namespace qrl::report
