#include "base/log.h"

#include <cstdio>
#include <ctime>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace qrl::base {

namespace {

struct Log {
  std::mutex mutex;
  std::FILE* file = nullptr;
  bool had_file = false;
  std::vector<std::string> before_file;  // lines logged before the file was set
  bool quiet = false;
  std::function<void()> before;
  std::set<std::string, std::less<>> seen;
};

constexpr std::size_t kMostBeforeFile = 1000;

Log& the_log() {
  static Log log;
  return log;
}

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S ", &local)};
}

void to_file(Log& log, const std::string& line) {
  if (log.file == nullptr) {
    if (!log.had_file && log.before_file.size() < kMostBeforeFile) log.before_file.push_back(line);
    return;
  }
  std::fprintf(log.file, "%s\n", line.c_str());
  std::fflush(log.file);
}

void to_terminal(Log& log, const std::string& line) {
  if (log.before) log.before();
  std::fprintf(stderr, "%s\n", line.c_str());
  std::fflush(stderr);
}

void write(const std::string& line) {
  Log& log = the_log();
  const std::scoped_lock lock(log.mutex);
  if (log.quiet) return;
  to_terminal(log, line);
  to_file(log, time_stamp() + line);
}

}  // namespace

void log_info(std::string_view line) { write(printable(line)); }
void log_warning(std::string_view line) { write("warning: " + printable(line)); }

void log_to_file(std::string_view line) {
  Log& log = the_log();
  const std::scoped_lock lock(log.mutex);
  if (!log.quiet) to_file(log, time_stamp() + printable(line));
}

void log_error(std::string_view line) {
  Log& log = the_log();
  const std::scoped_lock lock(log.mutex);
  to_terminal(log, printable(line));
  if (!log.quiet) to_file(log, time_stamp() + printable(line));
}

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
  std::error_code none;
  const std::filesystem::file_status status = std::filesystem::status(path, none);
  QRL_REQUIRE(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status), path.string(),
              "a regular file to append to", "a folder, a device or a pipe", "remove it");
  the_log().file = std::fopen(path.c_str(), "ae");
  QRL_REQUIRE(the_log().file != nullptr, path.string(), "a file that can be appended to", "an error opening it");
  the_log().had_file = true;
  for (const std::string& line : the_log().before_file) to_file(the_log(), line);
  the_log().before_file.clear();
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
