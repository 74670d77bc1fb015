// Owns reading of CSV files. Knows nothing of what their columns mean.
//
// RFC 4180: fields separated by commas, one record a line, a header first; a field in double quotes may hold commas,
// line ends and doubled quotes. UTF-8. A byte order mark, CRLF and a missing last line end are fine.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>

#include "state/json.h"

namespace qrl::data {

/// Calls `take` with each record in order, as an object of strings by column, and file:line of its first line. Input
/// errors name file:line: no header or one that names a column twice, records of another number of fields, a quote in
/// the midst of a field or never closed, invalid UTF-8, a NUL byte, a field above 64 MiB.
void read_csv(std::istream& in, const std::string& name,
              const std::function<void(const nlohmann::json& record, std::int64_t line)>& take);

/// One line for `qrl-train check csv`: records and columns.
std::string describe_csv(const std::filesystem::path& file);

}  // namespace qrl::data
