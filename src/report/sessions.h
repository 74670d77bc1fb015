#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace qrl::report {

struct Session {
  double unix_s = 0;  ///< start time, in seconds since 1970
  std::string host, processor, isa, program;
  int ranks = 1, threads = 1;  ///< `threads`: per process
  std::int64_t first_step = 0;
  // The members below stay unset if the session's process was killed.
  double ended_unix_s = 0;
  std::int64_t last_step = 0;
  std::string ended;  ///< "done", or why the session stopped
};

/// Calls visit(name, member) for each member, with the names and in the order of sessions.jsonl.
template <class SessionRef, class Visit>
void visit_members(SessionRef& session, const Visit& visit) {
  visit("unix", session.unix_s);
  visit("host", session.host);
  visit("processor", session.processor);
  visit("isa", session.isa);
  visit("program", session.program);
  visit("ranks", session.ranks);
  visit("threads", session.threads);
  visit("first_step", session.first_step);
  visit("ended", session.ended);
  visit("ended_unix", session.ended_unix_s);
  visit("last_step", session.last_step);
}

Session session_here();

/// Appends the line of a run's start. Throws an internal error on failure.
void begin_session(const std::filesystem::path& file, const Session& session);
/// Completes the newest start's line. Call it before releasing the run folder's lock.
void end_session(const std::filesystem::path& file, std::int64_t last_step, const std::string& ended);
/// Returns all starts, oldest first; skips invalid lines.
std::vector<Session> read_sessions(const std::filesystem::path& file);

}  // namespace qrl::report
