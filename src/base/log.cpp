#include "base/log.h"

#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

#include "base/error.h"

namespace qrl::base {

namespace {

struct Log {
  std::mutex mutex;
  std::FILE* file = nullptr;
  bool quiet = false;
  std::function<void()> before;
  std::set<std::string, std::less<>> seen;
};

Log& the_log() {
  static Log log;
  return log;
}

void write(std::string_view prefix, std::string_view line) {
  Log& log = the_log();
  const std::scoped_lock lock(log.mutex);
  if (log.quiet) return;
  if (log.before) log.before();
  for (std::FILE* out : {stderr, log.file}) {
    if (out == nullptr) continue;
    std::fprintf(out, "%.*s%.*s\n", static_cast<int>(prefix.size()), prefix.data(), static_cast<int>(line.size()),
                 line.data());
    std::fflush(out);
  }
}

}  // namespace

void log_info(std::string_view line) { write("", line); }
void log_warning(std::string_view line) { write("warning: ", line); }

void log_once(std::string_view key, std::string_view line) {
  {
    const std::scoped_lock lock(the_log().mutex);
    if (!the_log().seen.emplace(key).second) return;
  }
  log_warning(line);
}

void set_log_file(const std::filesystem::path& path) {
  const std::scoped_lock lock(the_log().mutex);
  if (the_log().file != nullptr) std::fclose(the_log().file);
  the_log().file = nullptr;
  if (path.empty()) return;
  the_log().file = std::fopen(path.c_str(), "ae");
  QRL_REQUIRE(the_log().file != nullptr, path.string(), "a file that can be appended to", "an error on opening it");
}

void set_log_quiet(bool quiet) {
  const std::scoped_lock lock(the_log().mutex);
  the_log().quiet = quiet;
}

void set_before_log(std::function<void()> end_open_line) {
  const std::scoped_lock lock(the_log().mutex);
  the_log().before = std::move(end_open_line);
}

}  // namespace qrl::base
