#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace qrl::base {

/// Writes a line to stderr and the run's log file, thread-safe. Ranks other than the first write nothing
/// (set_log_quiet).
void log_info(std::string_view line);
/// Logs like log_info, with the prefix "warning: ".
void log_warning(std::string_view line);
/// Logs like log_warning, once per process and `key`.
void log_once(std::string_view key, std::string_view line);

void log_to_file(std::string_view line);
/// Writes a process's last message to stderr, on every rank, and to the log file.
void log_error(std::string_view line);

/// Appends all lines since the process began, with local times, to `path`; "" closes the file. Throws an input error if
/// it cannot be opened.
void set_log_file(const std::filesystem::path& path);
void set_log_quiet(bool quiet);
/// Sets a function that ends an unfinished progress line before each line to stderr, without logging; an empty one
/// removes it.
void set_before_log(std::function<void()> end_open_line);

}  // namespace qrl::base
