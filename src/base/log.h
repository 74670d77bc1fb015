// Owns where messages for people go: stderr and, once set, a run's log.txt. Knows nothing of progress lines.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace qrl::base {

/// A line on stderr and in the log file. Thread-safe. Ranks other than the first say nothing (set_log_quiet).
void log_info(std::string_view line);
/// As log_info, prefixed "warning: ".
void log_warning(std::string_view line);
/// As log_warning, but only the first time this `key` is seen in the process.
void log_once(std::string_view key, std::string_view line);

/// In the log file alone: what the terminal shows in another form, or what it need not show.
void log_to_file(std::string_view line);
/// On stderr, of every rank, and in the log file: the last words of a process.
void log_error(std::string_view line);

/// Appends every later line, and the first ones since the process began, to `path` as well, each with its local time in
/// front; an empty path ends that.
/// Throws an input error when it cannot open.
void set_log_file(const std::filesystem::path& path);
void set_log_quiet(bool quiet);
/// Called before each line goes to stderr, so that whoever keeps an unfinished line on the terminal can end it there;
/// an empty one ends that. It must not log.
void set_before_log(std::function<void()> end_open_line);

}  // namespace qrl::base
