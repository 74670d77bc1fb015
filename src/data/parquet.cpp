#include "data/parquet.h"

#include <dlfcn.h>

#include <array>
#include <memory>

#include "base/error.h"
#include "base/shared_library.h"
#include "base/shipped_files.h"
#include "base/text.h"
#include "data/parquet_rows.h"

namespace qrl::data {

namespace fs = std::filesystem;

namespace {

/// Functions of libqrl_parquet.so; null without it.
struct Functions {
  decltype(&qrl_parquet_open) open = nullptr;
  decltype(&qrl_parquet_next) next = nullptr;
  decltype(&qrl_parquet_left_out) left_out = nullptr;
  decltype(&qrl_parquet_close) close = nullptr;
};

template <class Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
}

Functions open_functions() {
  Functions functions;
  const std::string file = base::own_library("libqrl_parquet.so");
  if (file.empty()) return functions;
  const base::SharedLibrary library = base::open_shared_library(std::array{file});
  if (library.handle == nullptr) return functions;
  find(library.handle, "qrl_parquet_open", functions.open);
  find(library.handle, "qrl_parquet_next", functions.next);
  find(library.handle, "qrl_parquet_left_out", functions.left_out);
  find(library.handle, "qrl_parquet_close", functions.close);
  return functions;
}

/// Returns why the row lacks fields that `error` names. `left_out` lists fields without a JSON form.
std::string about_left_out(const std::string& error, std::string_view left_out) {
  std::string text;
  while (!left_out.empty()) {
    const std::size_t end = left_out.find('\n'), next = left_out.find('\n', end + 1);
    const std::string name(left_out.substr(0, end)), why(left_out.substr(end + 1, next - end - 1));
    left_out.remove_prefix(next + 1);
    if (error.find("`" + name + "`") == std::string::npos) continue;
    text += "; the column " + base::quoted(name) + " has " + why + ", which is not supported: convert it";
  }
  return text;
}

const Functions& functions() {
  static const Functions all = open_functions();
  return all;
}

}  // namespace

bool can_read_parquet() { return functions().close != nullptr; }

void read_parquet(const fs::path& file, const std::function<void(std::string_view text, std::int64_t number)>& take) {
  const std::string name = file.string();
  QRL_REQUIRE(can_read_parquet(), name, "a file of a format that this build reads", "parquet",
              std::string(base::is_in_wheel() ? "run pip install 'qrl-train[parquet]'"
                                              : "run scripts/setup --parquet, then scripts/build") +
                  "; or convert the file to JSONL (docs/howto/own-data.md)");
  const char* error = nullptr;
  const std::unique_ptr<QrlParquet, decltype(functions().close)> rows(functions().open(name.c_str(), &error),
                                                                      functions().close);
  QRL_REQUIRE(rows != nullptr, name, "a parquet file", base::quoted(error == nullptr ? "" : error, 200));
  for (std::int64_t number = 1;; ++number) {
    const char* text = functions().next(rows.get(), &error);
    QRL_REQUIRE(error == nullptr, name + ":" + std::to_string(number), "a row that JSON can hold",
                base::quoted(error == nullptr ? "" : error, 200));
    if (text == nullptr) return;
    try {
      take(text, number);
    } catch (const base::Error& fault) {
      throw base::Error(fault.kind(), fault.what() + about_left_out(fault.what(), functions().left_out(rows.get())), "",
                        "");
    }
  }
}

}  // namespace qrl::data
