#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

namespace qrl::data {

/// Returns whether the text begins with [, after a byte order mark and white space. Keeps the position in `in`.
bool begins_array(std::istream& in);

/// Calls `take` with the JSON text and the first line of each element of an array. Reads one element at a time; the
/// text is valid during the call. Throws an input error that names the line if the text is no array, or has more after
/// it. Does not parse the elements.
void read_json_array(std::istream& in, const std::string& name,
                     const std::function<void(std::string_view text, std::int64_t line)>& take);

}  // namespace qrl::data
