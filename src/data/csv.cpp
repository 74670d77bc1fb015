#include "data/csv.h"

#include <algorithm>
#include <istream>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "data/row_file.h"

namespace qrl::data {

namespace {

constexpr std::size_t kMaxField_bytes = std::size_t{64} << 20;

class CsvReader {
 public:
  CsvReader(std::istream& in, const std::string& name) : bytes_(*in.rdbuf()), name_(name) {}

  bool next(std::vector<std::string>& fields) {
    fields.clear();
    while (bytes_.sgetc() == '\n' || bytes_.sgetc() == '\r') get();
    if (bytes_.sgetc() == kEnd) return false;
    record_line_ = line_;
    for (int end = ','; end == ',';) {
      fields.emplace_back();
      end = read_field(get(), fields.back());
    }
    return true;
  }
  std::int64_t record_line() const { return record_line_; }
  std::string where(std::int64_t line) const { return name_ + ":" + std::to_string(line); }

 private:
  static constexpr int kEnd = std::char_traits<char>::eof();

  int get() {
    const int c = bytes_.sbumpc();
    if (c == '\n') ++line_;
    QRL_REQUIRE(c != 0, where(line_), "CSV", "a NUL byte");
    return c;
  }
  int read_field(int c, std::string& field) {
    if (c == '"') return read_quoted(field);
    while (c != ',' && c != '\n' && c != kEnd) {
      QRL_REQUIRE(c != '"', where(line_), "quotes around a whole field", "a quote inside an unquoted field",
                  "enclose the field in quotes, and write each quote inside it twice");
      append(field, c);
      c = get();
    }
    if (c == '\n' && !field.empty() && field.back() == '\r') field.pop_back();
    return c;
  }
  int read_quoted(std::string& field) {
    const std::int64_t first_line = line_;
    for (;;) {
      int c = get();
      QRL_REQUIRE(c != kEnd, where(first_line), "a closing quote", "the end of the file");
      if (c != '"') {
        append(field, c);
        continue;
      }
      c = get();
      if (c == '\r' && bytes_.sgetc() == '\n') c = get();
      if (c == ',' || c == '\n' || c == kEnd) return c;
      QRL_REQUIRE(c == '"', where(line_), "a comma or the end of the line after a quoted field",
                  "text after the closing quote", "write each quote inside a field twice");
      append(field, c);
    }
  }
  void append(std::string& field, int c) {
    QRL_REQUIRE(field.size() < kMaxField_bytes, where(line_), "fields up to 64 MiB", "a longer field");
    field += static_cast<char>(c);
  }

  std::streambuf& bytes_;
  const std::string& name_;
  std::int64_t line_ = 1, record_line_ = 1;
};

}  // namespace

void read_csv(std::istream& in, const std::string& name,
              const std::function<void(const nlohmann::json& record, std::int64_t line)>& take) try {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  CsvReader reader(in, name);
  std::vector<std::string> columns, fields;
  QRL_REQUIRE(in.peek() != '{', name + ":1", "CSV", "what looks like a line of JSON",
              "name the file .jsonl if it is JSONL");
  QRL_REQUIRE(reader.next(columns), name, "a header with the names of the columns", "an empty file");
  if (columns[0].starts_with(kByteOrderMark)) columns[0].erase(0, kByteOrderMark.size());
  std::set<std::string_view> names;
  for (auto& column : columns) {
    const std::string where = reader.where(reader.record_line());
    QRL_REQUIRE(base::is_utf8(column), where, "UTF-8 text", "bytes that are not UTF-8");
    QRL_REQUIRE(!column.empty(), where, "a header with a name for each column", "an empty name");
    QRL_REQUIRE(names.insert(column).second, where, "a header with each column once", base::quoted(column) + " twice");
  }
  while (reader.next(fields)) {
    const std::string where = reader.where(reader.record_line());
    QRL_REQUIRE(fields.size() == columns.size(), where, std::to_string(columns.size()) + " fields, as in the header",
                std::to_string(fields.size()));
    nlohmann::json record = nlohmann::json::object();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      QRL_REQUIRE(base::is_utf8(fields[i]), where, "UTF-8 text", "bytes that are not UTF-8",
                  "convert the file to UTF-8");
      record[columns[i]] = std::move(fields[i]);
    }
    take(record, reader.record_line());
  }
} catch (const std::ios_base::failure& error) {
  base::fail_input(name, "a readable file", error.code().message());
}

std::string describe_csv(const std::filesystem::path& file) {
  std::ifstream in = open_rows(file, "a CSV file");
  std::int64_t num_records = 0;
  std::string columns;
  read_csv(in, file.string(), [&](const nlohmann::json& record, std::int64_t) {
    ++num_records;
    if (num_records > 1) return;
    for (const auto& [name, value] : record.items()) columns += (columns.empty() ? "" : ", ") + base::quoted(name);
  });
  QRL_REQUIRE(num_records > 0, file.string(), "at least one record after the header", "no records");
  return file.string() + ": " + std::to_string(num_records) + " records of " + columns;
}

}  // namespace qrl::data
