// Owns the log: messages go to stderr and, once it is set, to a run's log.txt.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace qrl::base {

/// Writes a line to stderr and to the log file; thread-safe. Ranks other than the first write nothing (set_log_quiet).
void log_info(std::string_view line);
/// Logs like log_info, with the prefix "warning: ".
void log_warning(std::string_view line);
/// Logs like log_warning, but only the first time that the process uses this `key`.
void log_once(std::string_view key, std::string_view line);

/// Writes a line to the log file only.
void log_to_file(std::string_view line);
/// Writes the last message of a process to stderr, on every rank, and to the log file.
void log_error(std::string_view line);

/// Appends every later line, and the lines logged since the process began, to `path`, each with its local time. An
/// empty path closes the file. Throws an input error if the file cannot be opened.
void set_log_file(const std::filesystem::path& path);
void set_log_quiet(bool quiet);
/// Sets a function that ends an unfinished progress line before each line to stderr. It must not log. An empty function
/// removes it.
void set_before_log(std::function<void()> end_open_line);

}  // namespace qrl::base
