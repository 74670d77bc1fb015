#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace qrl::base {

/// Writes a line to stderr and the run's log file, unless quiet (set_log_quiet). Thread-safe.
void log_info(std::string_view line);
void log_warning(std::string_view line);
/// Logs like log_warning, once per process and `key`.
void log_once(std::string_view key, std::string_view line);

void log_to_file(std::string_view line);
/// Writes a process's last message to stderr, even in quiet mode. Outside quiet mode, also writes it to the log file.
void log_error(std::string_view line);

/// Opens `path` and appends all lines since the process began, with local times; "" closes the file. Throws an input
/// error if the file cannot be opened.
void set_log_file(const std::filesystem::path& path);
void set_log_quiet(bool quiet);
/// Sets a function that runs before each line to stderr, to end an unfinished progress line. It must not log. An empty
/// function removes it.
void set_before_log(std::function<void()> end_open_line);

}  // namespace qrl::base
