// Owns reading of parquet files, by libqrl_parquet.so, which is opened when the first one is read. Knows nothing of
// what a row means.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace qrl::data {

/// Calls `take` with each row of a file as the text of a JSON object, and its number from 1. Input errors: a build
/// without parquet, with the command that adds it; a file that is none, and types of columns that JSON has no form for.
void read_parquet(const std::filesystem::path& file,
                  const std::function<void(std::string_view text, std::int64_t number)>& take);

/// Whether this build has the library.
bool can_read_parquet();

}  // namespace qrl::data
