// Owns sessions.jsonl: where and when the starts of a run happened, and how each ended. Knows nothing of training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace qrl::report {

/// One start of a run.
struct Session {
  double unix_s = 0;  ///< seconds since 1970
  std::string host, processor, isa, program;
  int ranks = 1, threads = 1;  ///< processes, and threads of each
  std::int64_t first_step = 0;
  // Once it has ended; a start that a kill ended never has them.
  double ended_unix_s = 0;
  std::int64_t last_step = 0;
  std::string ended;  ///< "done", or "exit 3: …" with the error's words
};

/// A start on this machine, now.
Session session_here();

/// Adds a line for a start. An internal error when the file cannot be written.
void begin_session(const std::filesystem::path& file, const Session& session);
/// Completes the line of the newest start. Call before the lock of the run folder is released.
void end_session(const std::filesystem::path& file, std::int64_t last_step, const std::string& ended);
/// All starts, oldest first; none where the file is missing. Lines that are no start are left out.
std::vector<Session> read_sessions(const std::filesystem::path& file);

}  // namespace qrl::report
