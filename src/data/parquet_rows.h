// The interface of libqrl_parquet.so: rows of a parquet file, in order, as JSON. It is in C and loaded at run time,
// because only users of parquet need Arrow.
#pragma once

extern "C" {

struct QrlParquet;  ///< an open file

/// Opens a file. Returns null on failure, with the reason in `*error`, valid until the next call on this thread.
QrlParquet* qrl_parquet_open(const char* path, const char** error);

/// Returns the next row as the text of a JSON object, valid until the next call. Members are in the columns' order.
/// Null columns and fields without a JSON form are left out. At the end, returns null and sets `*error` to null. On
/// failure, returns null and sets `*error` to the reason.
const char* qrl_parquet_next(QrlParquet* file, const char** error);

/// Returns the last row's fields that have no JSON form, "NAME\nWHY\n" each, or "". Valid until the next call.
const char* qrl_parquet_left_out(QrlParquet* file);

void qrl_parquet_close(QrlParquet* file);
}
