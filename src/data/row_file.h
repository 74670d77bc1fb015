#pragma once

#include <filesystem>
#include <fstream>

namespace qrl::data {

/// Opens a file of rows, JSONL, CSV or parquet. Throws an input error unless it is a regular file that can be read, so
/// it never waits for a pipe. `expected` is what the error expects, such as "a JSONL file".
std::ifstream open_rows(const std::filesystem::path& file, const char* expected);

}  // namespace qrl::data
