// Owns reading of JSONL, and of prompt files of any format. Knows nothing of tokens or verifiers.
//
// One JSON object a line, in UTF-8. Where JSONL leaves a choice:
// - A byte order mark at the start of the file, CRLF, blank lines and a missing last newline are fine.
// - "\u0000" is text like any other; a raw NUL byte is an error. A lone surrogate is an error: UTF-8 cannot hold it.
// - Text such as "<|im_end|>" is plain text. A long prompt is read whole: data.overlong_prompt judges it later.
// - data/row.h says which fields count. Other fields are not looked at, but must be JSON with each key once.
// - A number as gold is kept in shortest form: 27, 27.0 and 2.7e1 are "27". Beyond ±2^53 only a 64-bit integer is kept;
//   other numbers there have lost digits and are errors ("write it in quotes").
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

inline constexpr std::size_t kMaxLine_bytes = std::size_t{64} << 20;

/// What a lone surrogate escape is ("\\ud800", which Python writes and UTF-8 cannot hold).
enum class LoneSurrogate : bool {
  error,
  replaced,  ///< the replacement character
};

/// The rows of a JSONL text one after another, as all commands read it.
class JsonLines {
 public:
  /// `name` stands for the text in messages.
  JsonLines(std::istream& in, std::string name, LoneSurrogate surrogate = LoneSurrogate::error)
      : in_(in), name_(std::move(name)), surrogate_(surrogate) {}

  /// The next line that is not blank; nothing at the end. Input errors name the line: no JSON, and what read_jsonl says
  /// of text that is no JSONL.
  std::optional<nlohmann::json> next();
  /// NAME:LINE of the row that came last, and its line.
  std::string where() const { return name_ + ":" + std::to_string(line_); }
  std::int64_t line() const { return line_; }
  /// Its text, until the next is read.
  std::string_view text() const;

 private:
  std::istream& in_;
  std::string name_, buffer_;
  LoneSurrogate surrogate_;
  std::int64_t line_ = 0;
  bool any_ = false;
};

/// A row of a file of any format that is read.
struct FileRow {
  const nlohmann::json& value;  ///< an object's members are sorted
  std::string_view text;        ///< its line of JSONL; "": its format keeps no order of members
  std::string where;            ///< FILE:LINE
  std::int64_t line = 0;

  /// The row with its members in the file's order.
  nlohmann::ordered_json ordered() const;
};

/// Calls `take` with each row of a file: CSV where its name ends in .csv, parquet (parquet.h) where in .parquet, else
/// JSONL. Input errors: no such file, what read_jsonl, csv.h and parquet.h say of one, a file without rows.
void read_rows(const std::filesystem::path& file, const std::function<void(const FileRow&)>& take);

/// All rows, in order, or one input error that names file:line. Invalid UTF-8, lone surrogates, raw NUL, duplicate
/// keys, NaN, nesting beyond 64, a JSON array or a row over several lines, CSV, lines that end in CR alone, Python
/// dicts, UTF-16, gzip, parquet and other binary files, a file without rows, and missing, empty, null or wrongly typed
/// fields are errors.
std::vector<PromptRow> read_jsonl(const std::filesystem::path& file, const RowReader& reader = {},
                                  std::int64_t* num_read = nullptr);

/// The same from a stream: `name` stands for the file in messages, `default_source` for its stem.
std::vector<PromptRow> parse_jsonl(std::istream& in, const std::string& name, const std::string& default_source,
                                   const RowReader& reader = {}, std::int64_t* num_read = nullptr);

/// A file of prompts of any format that read_rows knows. The same errors; also when the filter leaves no row.
/// `num_read`: gets the number of rows before the filter. `source`: of rows that name none; "": the file's stem.
std::vector<PromptRow> read_prompt_file(const std::filesystem::path& file, const RowReader& reader,
                                        std::int64_t* num_read = nullptr, const std::string& source = {});

/// One line about rows: how many, prompt sizes in bytes, rows of each data source.
std::string describe_rows(const std::vector<PromptRow>& rows);

}  // namespace qrl::data
