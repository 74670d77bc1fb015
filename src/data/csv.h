// Reads CSV by RFC 4180, with a header. Files are UTF-8. A byte order mark, CRLF and a missing last line end are
// allowed.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>

#include "state/json.h"

namespace qrl::data {

/// Calls `take` with each record in order. A record is a JSON object that maps columns to strings; `line` is its first
/// line. Throws an input error that names file:line. Faults are a missing header, a column named twice, a wrong number
/// of fields, a quote inside an unquoted field, an unclosed quote, invalid UTF-8, a NUL byte, and a field above 64 MiB.
void read_csv(std::istream& in, const std::string& name,
              const std::function<void(const nlohmann::json& record, std::int64_t line)>& take);

std::string describe_csv(const std::filesystem::path& file);

}  // namespace qrl::data
