#include "data/jsonl.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "data/csv.h"
#include "data/json_array.h"
#include "data/parquet.h"
#include "data/row_file.h"
#include "state/json.h"

namespace qrl::data {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBlank = " \t\r";

struct Signature {
  std::string_view bytes;
  const char* name;
};
// Lists UTF-32 before UTF-16, because UTF-32's byte order mark may begin with UTF-16's.
const std::array<Signature, 13> kForeignFiles = {{{"\x1f\x8b", "gzip: decompress it first"},
                                                  {"PAR1", "parquet: name it .parquet"},
                                                  {"ARROW1", "Arrow: convert it to JSONL first"},
                                                  {"\x28\xb5\x2f\xfd", "zstd: decompress it first"},
                                                  {"\xfd"
                                                   "7zXZ",
                                                   "xz: decompress it first"},
                                                  {"BZh", "bzip2: decompress it first"},
                                                  {"PK\x03\x04", "zip: unpack it first"},
                                                  {"7z\xbc\xaf", "7-Zip: unpack it first"},
                                                  {"SQLite format 3", "an SQLite database: convert it to JSONL first"},
                                                  {std::string_view("\xff\xfe\0\0", 4), "UTF-32: save it as UTF-8"},
                                                  {std::string_view("\0\0\xfe\xff", 4), "UTF-32: save it as UTF-8"},
                                                  {"\xff\xfe", "UTF-16: save it as UTF-8"},
                                                  {"\xfe\xff", "UTF-16: save it as UTF-8"}}};

bool is_blank(std::string_view line) { return line.find_first_not_of(kBlank) == std::string_view::npos; }
void refuse_foreign(std::string_view first_line, const std::string& file) {
  QRL_REQUIRE(!base::is_lfs_pointer(first_line), file, "JSONL", base::kLfsPointer);
  for (const Signature& foreign : kForeignFiles) {
    QRL_REQUIRE(!first_line.starts_with(foreign.bytes), file, "JSONL", foreign.name);
  }
  // Recognizes UTF-16 without a mark by a NUL byte next to the first brace.
  const std::string_view start = first_line.substr(0, 2);
  QRL_REQUIRE(start != std::string_view("{\0", 2) && start != std::string_view("\0{", 2), file, "JSONL",
              "UTF-16: save it as UTF-8");
}

void refuse_lookalikes(std::string_view line, bool is_first, const std::string& where) {
  const std::string_view text = line.substr(line.find_first_not_of(kBlank));
  const std::string expected = "JSONL: one object per line";
  const std::size_t carriage_return = text.find('\r');
  const std::string_view behind = carriage_return == std::string_view::npos ? "" : text.substr(carriage_return);
  QRL_REQUIRE(is_blank(behind), where, expected, "lines that end in only CR", "end them with LF (tr '\\r' '\\n')");
  QRL_REQUIRE(text.front() != '[', where, expected, "a JSON array",
              "name the file .json, or write each element on a line of its own (jq -c '.[]')");
  const bool brace_alone = text.front() == '{' && is_blank(text.substr(1));
  QRL_REQUIRE(!brace_alone, where, expected, "JSON over several lines", "write each object on one line (jq -c .)");
  const std::size_t inside = text.front() == '{' ? text.find_first_not_of(kBlank, 1) : std::string_view::npos;
  QRL_REQUIRE(inside == std::string_view::npos || text[inside] != '\'', where, "a JSON object",
              "single quotes, as in a printed Python dict", "write rows with json.dumps");
  const bool may_be_csv = is_first && text.front() != '{' && text.find_first_of(",;\t") != std::string_view::npos;
  QRL_REQUIRE(!may_be_csv || nlohmann::json::accept(text), where, expected, "what looks like a line of CSV or TSV",
              "name the file .csv if it is CSV");
}

bool read_line(std::istream& in, std::string& line, const std::string& where) {
  line.clear();
  std::streambuf& buffer = *in.rdbuf();
  for (int c = buffer.sbumpc(); c != std::char_traits<char>::eof(); c = buffer.sbumpc()) {
    if (c == '\n') return true;
    QRL_REQUIRE(line.size() < kMaxRow_bytes, where, "lines up to 64 MiB", "a longer line");
    line += static_cast<char>(c);
  }
  return !line.empty();
}

/// Replaces the escapes of lone surrogates by \ufffd, in place.
void replace_lone_surrogates(std::string& line) {
  constexpr std::size_t kEscape_bytes = 6;  // \uXXXX
  const auto unit_at = [&line](std::size_t k) -> unsigned {
    unsigned unit = 0;
    const bool escape = line.compare(k, 2, "\\u") == 0 && k + kEscape_bytes <= line.size();
    const char* const end = line.data() + k + kEscape_bytes;
    return escape && std::from_chars(end - 4, end, unit, 16).ptr == end ? unit : 0;
  };
  const auto is_high = [](unsigned unit) { return unit >= 0xd800 && unit < 0xdc00; };
  const auto is_low = [](unsigned unit) { return unit >= 0xdc00 && unit < 0xe000; };
  for (std::size_t k = line.find('\\'); k < line.size(); k = line.find('\\', k)) {
    const unsigned unit = unit_at(k);
    const std::size_t next = k + kEscape_bytes;
    const bool pair = is_high(unit) && next < line.size() && is_low(unit_at(next));
    if (!pair && (is_high(unit) || is_low(unit))) line.replace(k, kEscape_bytes, "\\ufffd");
    k += pair ? 2 * kEscape_bytes : 2;  // skips the character after \\ as well
  }
}

void read_lines(std::istream& in, const std::string& name, const std::function<void(const FileRow&)>& take) {
  JsonLines lines(in, name);
  std::int64_t num_rows = 0;
  for (; const auto row = lines.next(); ++num_rows) take({*row, lines.text(), lines.where(), lines.line()});
  QRL_REQUIRE(num_rows > 0, name, "one row or more", "a file without rows");
}

template <class ReadRows>
std::vector<PromptRow> prompts_of(const ReadRows& read, const std::string& name, const std::string& default_source,
                                  const RowReader& reader, std::int64_t* num_read) {
  std::vector<PromptRow> rows;
  std::int64_t num_rows = 0;
  std::string with, without;  // the first row with a ground truth, and the first without
  read([&](const FileRow& file_row) {
    ++num_rows;
    auto row = reader.read(file_row.value, file_row.where, default_source, file_row.text);
    if (!row) return;
    std::string& first = row->has_ground_truth ? with : without;
    if (first.empty()) first = file_row.where;
    row->line = file_row.line;
    rows.push_back(std::move(*row));
  });
  QRL_REQUIRE(with.empty() || without.empty(), without, reader.expected_ground_truth() + ", as " + with + " has",
              "none", "give each row of the file a ground truth, or none");
  if (num_read != nullptr) *num_read = num_rows;
  QRL_REQUIRE(!rows.empty(), name, "rows that " + reader.filter_key() + " keeps", "no rows: it removes all of them");
  return rows;
}

}  // namespace

std::optional<nlohmann::json> JsonLines::next() try {
  for (;;) {
    ++line_;
    if (!read_line(in_, buffer_, where())) return std::nullopt;
    std::string_view line = buffer_;
    if (line_ == 1) {
      refuse_foreign(line, name_);
      if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    }
    if (is_blank(line)) continue;
    refuse_lookalikes(line, !any_, where());
    any_ = true;
    if (surrogate_ == LoneSurrogate::replaced) {
      replace_lone_surrogates(buffer_);
      line = std::string_view(buffer_).substr(buffer_.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
    }
    return state::parse_json(line, where(), kMaxRowDepth);
  }
} catch (const std::ios_base::failure& error) {
  base::fail_input(where(), "a readable file", error.code().message());
}

std::string_view JsonLines::text() const {
  return std::string_view(buffer_).substr(line_ == 1 && buffer_.starts_with(kByteOrderMark) ? kByteOrderMark.size()
                                                                                            : 0);
}

nlohmann::ordered_json FileRow::ordered() const {
  if (!text.empty()) return state::parse_ordered_json(text, where, kMaxRowDepth);
  return nlohmann::ordered_json(value);
}

void read_rows(const std::filesystem::path& file, const std::function<void(const FileRow&)>& take) {
  const bool is_csv = file.extension() == ".csv", is_parquet = file.extension() == ".parquet";
  std::ifstream in = open_rows(file, is_csv ? "a CSV file" : is_parquet ? "a parquet file" : "a JSONL file");
  const bool is_array = file.extension() == ".json" && begins_array(in);
  std::int64_t num_rows = 0;
  const auto take_text = [&](std::string_view text, std::int64_t number) {
    ++num_rows;
    const std::string where =
        file.string() + ":" + std::to_string(number) + (is_array ? " (element " + std::to_string(num_rows) + ")" : "");
    take({state::parse_json(text, where, kMaxRowDepth), text, where, number});
  };
  if (is_parquet) {
    read_parquet(file, take_text);
  } else if (is_array) {
    read_json_array(in, file.string(), take_text);
  } else if (is_csv) {
    read_csv(in, file.string(), [&](const nlohmann::json& record, std::int64_t line) {
      ++num_rows;
      take({record, {}, file.string() + ":" + std::to_string(line), line});
    });
  } else {
    return read_lines(in, file.string(), take);
  }
  QRL_REQUIRE(num_rows > 0, file.string(), "one row or more", "a file without rows");
}

std::vector<PromptRow> parse_jsonl(std::istream& in, const std::string& name, const std::string& default_source,
                                   const RowReader& reader) {
  const auto read = [&](const auto& take) { read_lines(in, name, take); };
  return prompts_of(read, name, default_source, reader, nullptr);
}

std::vector<PromptRow> read_prompt_file(const std::filesystem::path& file, const RowReader& reader,
                                        std::int64_t* num_read, const std::string& source) {
  const auto read = [&](const auto& take) { read_rows(file, take); };
  return prompts_of(read, file.string(), source.empty() ? file.stem().string() : source, reader, num_read);
}

std::string describe_rows(const std::vector<PromptRow>& rows) {
  std::map<std::string, std::int64_t> sources;
  std::size_t shortest = std::numeric_limits<std::size_t>::max(), longest = 0;
  for (const PromptRow& row : rows) {
    ++sources[row.data_source];
    shortest = std::min(shortest, row.prompt.size());
    longest = std::max(longest, row.prompt.size());
  }
  std::string line = std::to_string(rows.size()) + (rows.size() == 1 ? " row" : " rows") + ", prompts of " +
                     std::to_string(shortest) + " to " + std::to_string(longest) + " bytes, data sources:";
  std::size_t num_named = 0;
  for (const auto& [name, count] : sources) {
    if (++num_named > 8) {
      line += " and " + std::to_string(sources.size() - 8) + " more";
      break;
    }
    line += (num_named == 1 ? " " : ", ") + base::quoted(name) + " (" + std::to_string(count) + ")";
  }
  return line +
         (rows.empty() || rows.front().has_ground_truth ? "" : "; no ground truths: for reward.verifier command alone");
}

}  // namespace qrl::data
