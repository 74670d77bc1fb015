#include "data/parquet.h"

#include <dlfcn.h>

#include <memory>
#include <system_error>

#include "base/error.h"
#include "base/shared_library.h"
#include "base/text.h"
#include "data/parquet_rows.h"

namespace qrl::data {

namespace fs = std::filesystem;

namespace {

/// The library's functions; null ones where there is no library.
struct Functions {
  decltype(&qrl_parquet_open) open = nullptr;
  decltype(&qrl_parquet_next) next = nullptr;
  decltype(&qrl_parquet_close) close = nullptr;
  std::string why;  ///< there are none
};

template <class Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
}

/// Beside the program, above a test's folder, or where an install has a program's libraries.
Functions open_functions() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  constexpr const char* kName = "libqrl_parquet.so";
  const std::string places[] = {program / kName, program.parent_path() / kName,
                                program.parent_path() / "lib" / "qrl-train" / kName};
  const base::SharedLibrary library = base::open_shared_library(places);
  Functions functions;
  functions.why = library.why;
  if (library.handle == nullptr) return functions;
  find(library.handle, "qrl_parquet_open", functions.open);
  find(library.handle, "qrl_parquet_next", functions.next);
  find(library.handle, "qrl_parquet_close", functions.close);
  return functions;
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
              "scripts/setup --parquet, then scripts/build, adds it; or convert the file to JSONL "
              "(docs/howto/own-data.md)");
  const char* error = nullptr;
  const std::unique_ptr<QrlParquet, decltype(functions().close)> rows(functions().open(name.c_str(), &error),
                                                                      functions().close);
  QRL_REQUIRE(rows != nullptr, name, "a parquet file", base::quoted(error == nullptr ? "" : error, 200));
  for (std::int64_t number = 1;; ++number) {
    const char* text = functions().next(rows.get(), &error);
    QRL_REQUIRE(error == nullptr, name + ":" + std::to_string(number), "a row that JSON can hold",
                base::quoted(error == nullptr ? "" : error, 200));
    if (text == nullptr) return;
    take(text, number);
  }
}

}  // namespace qrl::data
