// Owns reading of JSONL prompt files. Knows nothing of tokens or verifiers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace qrl::data {

struct PromptRow {
  std::string prompt;          ///< field `prompt` or `question`; not empty
  std::string ground_truth;    ///< field `ground_truth` or `answer`; a string as it is, a number in shortest form,
                               ///< an object or array as compact JSON
  std::string data_source;     ///< field `data_source`, else the file's stem
  std::int64_t line = 0;       ///< 1-based
};

/// All rows, or one input error that names file:line. BOM, CRLF, blank lines and a missing last newline are fine;
/// invalid UTF-8, lone surrogates, raw NUL, duplicate keys, NaN, deep nesting, arrays, gzip, parquet, an empty file,
/// missing or null fields are errors.
std::vector<PromptRow> read_jsonl(const std::filesystem::path& file);

}  // namespace qrl::data
