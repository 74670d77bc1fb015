#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>

#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>

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

/// The shortest digits that read back as the same number.
template <class Number>
void append_number(Number value, std::string& out) {
  std::array<char, 32> digits;
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
}

template <class Float>
void append_float(Float value, std::string& out) {
  if (!std::isfinite(value)) throw std::runtime_error("a number that is not finite");
  append_number(value, out);
}

void append_value(const arrow::Array& array, std::int64_t row, std::string& out);

template <class List>
void append_list(const arrow::Array& array, std::int64_t row, std::string& out) {
  const auto& list = static_cast<const List&>(array);
  out += '[';
  const std::int64_t end = list.value_offset(row) + list.value_length(row);
  for (std::int64_t i = list.value_offset(row); i < end; ++i) {
    if (i > list.value_offset(row)) out += ',';
    append_value(*list.values(), i, out);
  }
  out += ']';
}

void append_struct(const arrow::Array& array, std::int64_t row, std::string& out) {
  const auto& object = static_cast<const arrow::StructArray&>(array);
  out += '{';
  for (int i = 0; i < object.num_fields(); ++i) {
    if (i > 0) out += ',';
    append_text(object.type()->field(i)->name(), out);
    out += ':';
    append_value(*object.field(i), row, out);
  }
  out += '}';
}

void append_value(const arrow::Array& array, std::int64_t row, std::string& out) {
  if (array.IsNull(row)) {
    out += "null";
    return;
  }
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      out += static_cast<const arrow::BooleanArray&>(array).Value(row) ? "true" : "false";
      return;
    case arrow::Type::INT8:
      return append_number(int{static_cast<const arrow::Int8Array&>(array).Value(row)}, out);
    case arrow::Type::UINT8:
      return append_number(int{static_cast<const arrow::UInt8Array&>(array).Value(row)}, out);
    case arrow::Type::INT16:
      return append_number(static_cast<const arrow::Int16Array&>(array).Value(row), out);
    case arrow::Type::UINT16:
      return append_number(static_cast<const arrow::UInt16Array&>(array).Value(row), out);
    case arrow::Type::INT32:
      return append_number(static_cast<const arrow::Int32Array&>(array).Value(row), out);
    case arrow::Type::UINT32:
      return append_number(static_cast<const arrow::UInt32Array&>(array).Value(row), out);
    case arrow::Type::INT64:
      return append_number(static_cast<const arrow::Int64Array&>(array).Value(row), out);
    case arrow::Type::UINT64:
      return append_number(static_cast<const arrow::UInt64Array&>(array).Value(row), out);
    case arrow::Type::FLOAT:
      return append_float(static_cast<const arrow::FloatArray&>(array).Value(row), out);
    case arrow::Type::DOUBLE:
      return append_float(static_cast<const arrow::DoubleArray&>(array).Value(row), out);
    case arrow::Type::STRING:
      return append_text(static_cast<const arrow::StringArray&>(array).GetView(row), out);
    case arrow::Type::LARGE_STRING:
      return append_text(static_cast<const arrow::LargeStringArray&>(array).GetView(row), out);
    case arrow::Type::LIST:
      return append_list<arrow::ListArray>(array, row, out);
    case arrow::Type::LARGE_LIST:
      return append_list<arrow::LargeListArray>(array, row, out);
    case arrow::Type::STRUCT:
      return append_struct(array, row, out);
    case arrow::Type::DICTIONARY: {
      const auto& words = static_cast<const arrow::DictionaryArray&>(array);
      return append_value(*words.dictionary(), words.GetValueIndex(row), out);
    }
    default:
      throw std::runtime_error("a column of the type " + array.type()->ToString());
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
  std::string text;
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
  for (int i = 0; i < file->batch->num_columns(); ++i) {
    const arrow::Array& column = *file->batch->column(i);
    if (column.IsNull(file->row)) continue;
    if (file->text.size() > 1) file->text += ',';
    append_text(file->batch->column_name(i), file->text);
    file->text += ':';
    append_value(column, file->row, file->text);
  }
  file->text += '}';
  ++file->row;
  return file->text.c_str();
} catch (const std::exception& failure) {
  g_error = failure.what();
  *error = g_error.c_str();
  return nullptr;
}

void qrl_parquet_close(QrlParquet* file) { delete file; }
