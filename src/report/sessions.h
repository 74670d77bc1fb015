// Owns sessions.jsonl: the place, time and end of each start of a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace qrl::report {

struct Session {
  double unix_s = 0;  ///< seconds since 1970
  std::string host, processor, isa, program;
  int ranks = 1, threads = 1;  ///< processes, and threads per process
  std::int64_t first_step = 0;
  // Set at the end; a start that was killed never has them.
  double ended_unix_s = 0;
  std::int64_t last_step = 0;
  std::string ended;  ///< "done", or "exit 3: …" with the error's text
};

Session session_here();

/// Appends a line for a start. Throws an internal error if the file cannot be written.
void begin_session(const std::filesystem::path& file, const Session& session);
/// Completes the line of the newest start. Call it before the lock of the run folder is released.
void end_session(const std::filesystem::path& file, std::int64_t last_step, const std::string& ended);
/// Returns all starts, oldest first; none if the file is missing. Lines that are no start are skipped.
std::vector<Session> read_sessions(const std::filesystem::path& file);

}  // namespace qrl::report
