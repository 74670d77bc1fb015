// Owns reading of JSONL, and of prompt files in any format.
//
// JSONL is one JSON object per line, in UTF-8. This reader decides what JSONL leaves open:
// - A byte order mark at the start, CRLF, blank lines and a missing last newline are allowed.
// - "\u0000" is plain text. A raw NUL byte and a lone surrogate are errors.
// - Text such as "<|im_end|>" is plain text.
// - data/row.h defines the fields that are used. Other fields are ignored, but must be JSON with unique keys.
// - A number as ground truth is kept in shortest form: 27, 27.0 and 2.7e1 are "27". Beyond ±2^53 only 64-bit integers
//   are kept; other numbers there have lost digits and are errors ("write it in quotes").
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/row.h"

namespace qrl::data {

/// How to treat a lone surrogate's escape ("\\ud800"), which UTF-8 cannot represent.
enum class LoneSurrogate : bool {
  error,
  replaced,  ///< becomes U+FFFD
};

class JsonLines {
 public:
  /// `in` must outlive this object.
  JsonLines(std::istream& in, std::string name, LoneSurrogate surrogate = LoneSurrogate::error)
      : in_(in), name_(std::move(name)), surrogate_(surrogate) {}

  /// Parses the next line that is not blank; returns nothing at the end. Throws read_rows' input errors for a line.
  std::optional<nlohmann::json> next();
  std::string where() const { return name_ + ":" + std::to_string(line_); }
  std::int64_t line() const { return line_; }
  /// Returns the last row's text, valid until the next row is read.
  std::string_view text() const;

 private:
  std::istream& in_;
  std::string name_, buffer_;
  LoneSurrogate surrogate_;
  std::int64_t line_ = 0;
  bool any_ = false;
};

struct FileRow {
  const nlohmann::json& value;  ///< the parsed row, with sorted members
  std::string_view text;        ///< the row's JSON text; "" for CSV
  std::string where;
  std::int64_t line = 0;

  /// Returns the members in the file's order.
  nlohmann::ordered_json ordered() const;
};

/// Calls `take` with each row of a file. Reads .csv files as CSV, .parquet files as parquet (parquet.h), .json files
/// that hold an array as the array's objects, and others as JSONL. Throws an input error for a missing file, a file
/// without rows, and the faults in csv.h and parquet.h.
///
/// Errors name file:line. Faults of JSONL are invalid UTF-8, lone surrogates, raw NUL, duplicate keys, NaN, nesting
/// beyond 64, JSON arrays, multi-line rows, and lines that end in CR alone. If the content looks like CSV, Python
/// dicts, UTF-16, gzip, parquet or another binary format, the error names that format.
void read_rows(const std::filesystem::path& file, const std::function<void(const FileRow&)>& take);

/// Throws the input errors of read_rows and RowReader::read, and an input error if the filter leaves no row. `num_read`
/// receives the number of rows before the filter. `source`: data source of rows without one; "": the file's stem.
std::vector<PromptRow> read_prompt_file(const std::filesystem::path& file, const RowReader& reader = {},
                                        std::int64_t* num_read = nullptr, const std::string& source = {});

/// Reads JSONL from a stream, like read_prompt_file. `name` is for error messages.
std::vector<PromptRow> parse_jsonl(std::istream& in, const std::string& name, const std::string& default_source,
                                   const RowReader& reader = {});

std::string describe_rows(const std::vector<PromptRow>& rows);

}  // namespace qrl::data
