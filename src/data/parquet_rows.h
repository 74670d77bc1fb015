// The interface of libqrl_parquet.so, which reads the rows of a parquet file as JSON. The library is loaded at run
// time, because only users of parquet need Arrow.
#pragma once

extern "C" {

struct QrlParquet;

/// Opens a file. On failure, returns null and sets `*error` to the reason, valid until the next call on this thread.
QrlParquet* qrl_parquet_open(const char* path, const char** error);

/// Returns the next row as the text of a JSON object, valid until the next call. Members are in the columns' order.
/// Omits null columns and fields without a JSON form. At the end, returns null and sets `*error` to null. On failure,
/// returns null and sets `*error` to the reason.
const char* qrl_parquet_next(QrlParquet* file, const char** error);

/// Returns the fields of the last row that have no JSON form, as "NAME\nWHY\n" each. Valid until the next call.
const char* qrl_parquet_left_out(QrlParquet* file);

void qrl_parquet_close(QrlParquet* file);
}
