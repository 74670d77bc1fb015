// The interface of libqrl_parquet.so: rows of a parquet file, one after another, as JSON. It is C, because the library
// is built apart and opened while the program runs: only who reads parquet needs Arrow.
#pragma once

extern "C" {

struct QrlParquet;  ///< a file that is being read

/// Opens a file. Null on failure, with `*error` the reason, valid until the next call on this thread.
QrlParquet* qrl_parquet_open(const char* path, const char** error);

/// The next row as the text of a JSON object: members in the columns' order, columns that are null left out, and fields
/// that JSON has no form for. Null at the end, where `*error` is null, and on failure, where it is the reason. The text
/// is valid until the next call.
const char* qrl_parquet_next(QrlParquet* file, const char** error);

/// The fields of that row without a form in JSON: "NAME\nWHY\n" of each, "" without any. Valid until the next call.
const char* qrl_parquet_left_out(QrlParquet* file);

void qrl_parquet_close(QrlParquet* file);
}
