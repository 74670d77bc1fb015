#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace qrl::data {

/// Calls `take` with the JSON text of each row of a file, and the row's 1-based number. Loads libqrl_parquet.so at the
/// first call. Throws an input error for a build without parquet, and for a file or row that cannot be read. If an
/// error of `take` names a column that has no JSON form, adds the reason to the error.
void read_parquet(const std::filesystem::path& file,
                  const std::function<void(std::string_view text, std::int64_t number)>& take);

bool can_read_parquet();

}  // namespace qrl::data
