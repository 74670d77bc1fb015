#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/util/utf8.h>
#include <parquet/arrow/reader.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "data/parquet_rows.h"

namespace {

thread_local std::string g_error;

void append_text(std::string_view text, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

/// Appends the shortest digits that parse to the same number.
template <class Number>
void append_number(Number value, std::string& out) {
  std::array<char, 32> digits;
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
}

/// Appends a number. NaN and infinities become null: JSON has no form for them, and pandas uses them for missing
/// numbers.
template <class Float>
void append_float(Float value, std::string& out) {
  if (std::isfinite(value)) append_number(value, out);
  else out += "null";
}

/// Names a field of the current row that JSON cannot represent; it is left out of the row.
struct LeftOut {
  std::string path;  ///< "extra_info.created"
  std::string why;
};

/// Writes the values of a row as JSON.
class RowWriter {
 public:
  explicit RowWriter(std::string& out) : out_(out) {}

  /// Appends a member, after a comma unless it is the first. Leaves it out if JSON cannot represent its value.
  void member(const std::string& name, const arrow::Array& array, std::int64_t row);
  const std::vector<LeftOut>& left_out() const { return left_out_; }

 private:
  void value(const arrow::Array& array, std::int64_t row);
  void text(std::string_view text);
  template <class List>
  void list(const arrow::Array& array, std::int64_t row);
  void object(const arrow::Array& array, std::int64_t row);

  std::string& out_;
  std::string path_;  ///< path of the member that is being written
  std::vector<LeftOut> left_out_;
};

void RowWriter::member(const std::string& name, const arrow::Array& array, std::int64_t row) {
  const std::size_t size = out_.size(), path_size = path_.size();
  path_ += (path_.empty() ? "" : ".") + name;
  try {
    if (!out_.ends_with('{')) out_ += ',';
    append_text(name, out_);
    out_ += ':';
    value(array, row);
  } catch (const std::runtime_error& failure) {
    out_.resize(size);
    left_out_.push_back({path_, failure.what()});
  }
  path_.resize(path_size);
}

void RowWriter::text(std::string_view text) {
  if (!arrow::util::ValidateUTF8(text)) throw std::runtime_error("text that is not UTF-8");
  append_text(text, out_);
}

template <class List>
void RowWriter::list(const arrow::Array& array, std::int64_t row) {
  const auto& list = static_cast<const List&>(array);
  out_ += '[';
  const std::int64_t end = list.value_offset(row) + list.value_length(row);
  for (std::int64_t i = list.value_offset(row); i < end; ++i) {
    if (i > list.value_offset(row)) out_ += ',';
    value(*list.values(), i);
  }
  out_ += ']';
}

void RowWriter::object(const arrow::Array& array, std::int64_t row) {
  const auto& object = static_cast<const arrow::StructArray&>(array);
  out_ += '{';
  for (int i = 0; i < object.num_fields(); ++i) member(object.type()->field(i)->name(), *object.field(i), row);
  out_ += '}';
}

void RowWriter::value(const arrow::Array& array, std::int64_t row) {
  if (array.IsNull(row)) {
    out_ += "null";
    return;
  }
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      out_ += static_cast<const arrow::BooleanArray&>(array).Value(row) ? "true" : "false";
      return;
    case arrow::Type::INT8:
      return append_number(int{static_cast<const arrow::Int8Array&>(array).Value(row)}, out_);
    case arrow::Type::UINT8:
      return append_number(int{static_cast<const arrow::UInt8Array&>(array).Value(row)}, out_);
    case arrow::Type::INT16:
      return append_number(static_cast<const arrow::Int16Array&>(array).Value(row), out_);
    case arrow::Type::UINT16:
      return append_number(static_cast<const arrow::UInt16Array&>(array).Value(row), out_);
    case arrow::Type::INT32:
      return append_number(static_cast<const arrow::Int32Array&>(array).Value(row), out_);
    case arrow::Type::UINT32:
      return append_number(static_cast<const arrow::UInt32Array&>(array).Value(row), out_);
    case arrow::Type::INT64:
      return append_number(static_cast<const arrow::Int64Array&>(array).Value(row), out_);
    case arrow::Type::UINT64:
      return append_number(static_cast<const arrow::UInt64Array&>(array).Value(row), out_);
    case arrow::Type::FLOAT:
      return append_float(static_cast<const arrow::FloatArray&>(array).Value(row), out_);
    case arrow::Type::DOUBLE:
      return append_float(static_cast<const arrow::DoubleArray&>(array).Value(row), out_);
    case arrow::Type::STRING:
      return text(static_cast<const arrow::StringArray&>(array).GetView(row));
    case arrow::Type::LARGE_STRING:
      return text(static_cast<const arrow::LargeStringArray&>(array).GetView(row));
    case arrow::Type::STRING_VIEW:
      return text(static_cast<const arrow::StringViewArray&>(array).GetView(row));
    case arrow::Type::LIST:
      return list<arrow::ListArray>(array, row);
    case arrow::Type::LARGE_LIST:
      return list<arrow::LargeListArray>(array, row);
    case arrow::Type::FIXED_SIZE_LIST:
      return list<arrow::FixedSizeListArray>(array, row);
    case arrow::Type::STRUCT:
      return object(array, row);
    case arrow::Type::DICTIONARY: {
      const auto& words = static_cast<const arrow::DictionaryArray&>(array);
      return value(*words.dictionary(), words.GetValueIndex(row));
    }
    case arrow::Type::EXTENSION:
      return value(*static_cast<const arrow::ExtensionArray&>(array).storage(), row);
    default:
      throw std::runtime_error("the type " + array.type()->ToString());
  }
}

void require(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

template <class T>
T taken(arrow::Result<T> result) {
  require(result.status());
  return std::move(result).ValueUnsafe();
}

}  // namespace

struct QrlParquet {
  std::unique_ptr<parquet::arrow::FileReader> reader;
  std::shared_ptr<arrow::RecordBatchReader> batches;
  std::shared_ptr<arrow::RecordBatch> batch;
  std::int64_t row = 0;
  std::string text, left_out;
};

QrlParquet* qrl_parquet_open(const char* path, const char** error) try {
  auto file = std::make_unique<QrlParquet>();
  file->reader =
      taken(parquet::arrow::OpenFile(taken(arrow::io::ReadableFile::Open(path)), arrow::default_memory_pool()));
  file->batches = taken(file->reader->GetRecordBatchReader());
  *error = nullptr;
  return file.release();
} catch (const std::exception& failure) {
  g_error = failure.what();
  *error = g_error.c_str();
  return nullptr;
}

const char* qrl_parquet_next(QrlParquet* file, const char** error) try {
  *error = nullptr;
  while (file->batch == nullptr || file->row == file->batch->num_rows()) {
    require(file->batches->ReadNext(&file->batch));
    file->row = 0;
    if (file->batch == nullptr) return nullptr;
  }
  file->text = "{";
  RowWriter writer(file->text);
  for (int i = 0; i < file->batch->num_columns(); ++i) {
    const arrow::Array& column = *file->batch->column(i);
    if (!column.IsNull(file->row)) writer.member(file->batch->column_name(i), column, file->row);
  }
  file->text += '}';
  file->left_out.clear();
  for (LeftOut field : writer.left_out()) {
    std::replace(field.path.begin(), field.path.end(), '\n', ' ');
    file->left_out += field.path + "\n" + field.why + "\n";
  }
  ++file->row;
  return file->text.c_str();
} catch (const std::exception& failure) {
  g_error = failure.what();
  *error = g_error.c_str();
  return nullptr;
}

const char* qrl_parquet_left_out(QrlParquet* file) { return file->left_out.c_str(); }

void qrl_parquet_close(QrlParquet* file) { delete file; }
