#include "tasks/command/error_log.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "state/file.h"

namespace qrl::tasks {

namespace {

std::string newest_lines(const std::string& text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  const std::size_t line = text.find('\n', text.size() - bytes);
  return line == std::string::npos ? "" : text.substr(line + 1);
}

}  // namespace

void ErrorLog::open(const std::filesystem::path& file) {
  state::require_no_special_file(file);
  file_ = file;
  write(std::exchange(before_, {}));
}

void ErrorLog::show() {
  is_shown_ = true;
  add(std::exchange(before_, {}));
}

void ErrorLog::add(std::string_view text) {
  if (is_shown_) {
    const std::string shown = base::printable(text);  // the text may contain responses
    std::fwrite(shown.data(), 1, shown.size(), stderr);
    return;
  }
  if (!file_.empty()) return write(text);
  before_ += text;
  const auto most = static_cast<std::size_t>(max_bytes_ / 10);
  if (before_.size() > 2 * most) before_ = newest_lines(before_, most);
}

void ErrorLog::write(std::string_view text) {
  if (text.empty()) return;
  std::ofstream(file_, std::ios::binary | std::ios::app) << text;
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(file_, error);
  if (error || size <= static_cast<std::uintmax_t>(max_bytes_)) return;
  std::ifstream in(file_, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  std::ofstream(file_, std::ios::binary | std::ios::trunc)
      << newest_lines(all, static_cast<std::size_t>(max_bytes_ / 2));
}

}  // namespace qrl::tasks
