#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tasks/command/crew.h"
#include "tasks/environment/protocol.h"

namespace qrl::tasks {

struct SessionLimits {
  std::int64_t sessions = 1;                     ///< conversations per worker at once
  double timeout_s = 60, setup_timeout_s = 300;  ///< per answer; setup_timeout_s: to a start or a row
};

enum class SessionFault : std::uint8_t {
  none,
  timeout,   ///< no answer in time
  crashed,   ///< two workers ended while they had this conversation's request
  protocol,  ///< an answer that the protocol does not allow
};

/// Holds an answer to a session's newest request, or the fault that ended the session.
struct SessionEvent {
  std::size_t session = 0;
  SessionFault fault = SessionFault::none;
  EnvironmentAnswer answer;
  std::string detail;  ///< of a fault
};

/// Plays conversations with the workers of an environment. A session keeps its place in a worker until an answer closes
/// it. If a worker is killed or ends, its other sessions are played again in a new worker, with the same requests.
/// After a crash, the sessions that waited for an answer are played again alone. Only one thread may call.
class Sessions : public Crew {
 public:
  /// Returns the answer to a request, or none if the protocol does not allow it.
  using Reader = std::function<std::optional<EnvironmentAnswer>(EnvironmentRequest, const nlohmann::ordered_json&)>;
  Sessions(CrewSettings settings, SessionLimits limits, Reader reader)
      : Crew(std::move(settings)), limits_(limits), reader_(std::move(reader)), members_(slots_.size()) {}

  /// Opens a session, numbered from 0 in the order of calls since the last `clear`. It waits for a free place.
  void open(EnvironmentRequest request, std::string fields);
  /// Sends the next request of a session whose last request is answered. Does nothing if a fault has ended the session.
  void send(std::size_t session, EnvironmentRequest request, std::string fields);
  /// Returns events since the last call. If there are none, waits at most `most_s` for one.
  std::vector<SessionEvent> take_events(double most_s);
  /// Returns the number of sessions that are open, or wait for a place.
  std::int64_t num_open() const;
  /// Forgets all sessions. Kills the workers that have open ones.
  void clear();

 private:
  struct Request {
    EnvironmentRequest kind;
    std::string fields;
  };
  struct Session {
    std::vector<Request> requests;
    std::vector<std::string> answers;  ///< to the first requests, without ids
    std::size_t slot = kNowhere;
    std::uint64_t id = 0;          ///< in its worker
    std::size_t num_answered = 0;  ///< requests that its worker has answered
    int deaths = 0;                ///< ends of workers while this session waited for an answer
    bool is_closed = false, has_failed = false;
  };
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  void start_workers();
  void assign();
  std::size_t place_for(const Session& session) const;
  void send_next(std::size_t session);
  void attend(std::size_t slot);
  void take_lines(std::size_t slot);
  void take_answer(std::size_t slot, std::string_view line);
  void take_stray(std::size_t slot, std::optional<std::size_t> session, const std::string& what);
  void take_late(std::size_t slot, const std::string& what);
  void check_deadlines(std::size_t slot);
  void died(std::size_t slot);
  double limit_s(std::size_t session) const;
  void close(std::size_t session);
  void fail(std::size_t session, SessionFault fault, std::string detail);
  /// Kills a worker; its open sessions wait for a place again.
  void replace(std::size_t slot);

  SessionLimits limits_;
  Reader reader_;
  std::vector<Session> sessions_;
  std::vector<std::vector<std::size_t>> members_;  ///< open sessions of each slot's worker
  std::deque<std::size_t> queue_;                  ///< sessions without a place
  std::map<std::uint64_t, std::size_t> by_id_;
  std::vector<SessionEvent> events_;
  std::uint64_t next_id_ = 1;
};

}  // namespace qrl::tasks
