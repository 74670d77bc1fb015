#include "tasks/environment/sessions.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "state/json.h"

namespace qrl::tasks {

namespace {

constexpr std::size_t kShownLine_bytes = 200;

}  // namespace

void Sessions::open(EnvironmentRequest request, std::string fields) {
  queue_.push_back(sessions_.size());
  sessions_.emplace_back().requests.push_back({request, std::move(fields)});
}

void Sessions::send(std::size_t session, EnvironmentRequest request, std::string fields) {
  Session& to = sessions_.at(session);
  if (to.has_failed) return;
  QRL_INVARIANT(!to.is_closed && to.answers.size() == to.requests.size(), "environment",
                "an open session without an open request", "session " + std::to_string(session));
  to.requests.push_back({request, std::move(fields)});
  if (to.slot != kNowhere && to.num_answered + 1 == to.requests.size()) send_next(session);
}

std::vector<SessionEvent> Sessions::take_events(double most_s) {
  start_workers();
  assign();
  double deadline_s = next_start_deadline_s();
  for (const Slot& slot : slots_) {
    if (!slot.worker) continue;
    for (const HeldRow& held : slot.worker->held) deadline_s = std::min(deadline_s, held.since_s + limit_s(held.row));
  }
  poll_workers(deadline_s, events_.empty() ? most_s : 0);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) attend(slot);
  start_workers();
  assign();
  return std::exchange(events_, {});
}

std::int64_t Sessions::num_open() const {
  return std::ranges::count_if(sessions_, [](const Session& one) { return !one.is_closed; });
}

void Sessions::clear() {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!members_[slot].empty()) end_worker(slots_[slot]);
    members_[slot].clear();
  }
  sessions_.clear();
  queue_.clear();
  by_id_.clear();
  events_.clear();
}

void Sessions::start_workers() {
  std::int64_t room = 0;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].worker) room += limits_.sessions - std::ssize(members_[slot]);
  }
  for (Slot& slot : slots_) {
    if (slot.worker || room >= std::ssize(queue_)) continue;
    start_worker(slot);
    room += limits_.sessions;
  }
}

/// Returns the ready worker with the fewest sessions that can take the session; kNowhere if none can. A session that
/// saw a worker die is alone in its worker.
std::size_t Sessions::place_for(const Session& session) const {
  std::size_t best = kNowhere;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    const std::vector<std::size_t>& members = members_[slot];
    if (!slots_[slot].worker || !slots_[slot].worker->is_ready) continue;
    const bool is_lone = session.deaths > 0 || (!members.empty() && sessions_[members.front()].deaths > 0);
    if (std::ssize(members) >= (is_lone ? 1 : limits_.sessions)) continue;
    if (best == kNowhere || members.size() < members_[best].size()) best = slot;
  }
  return best;
}

void Sessions::assign() {
  for (std::size_t i = 0; i < queue_.size();) {
    const std::size_t session = queue_[i];
    Session& one = sessions_[session];
    const std::size_t slot = one.is_closed ? kNowhere : place_for(one);
    if (slot == kNowhere && !one.is_closed && one.deaths == 0) return;  // no worker has room
    if (slot == kNowhere && !one.is_closed) {
      ++i;
      continue;
    }
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
    if (one.is_closed) continue;
    one.slot = slot;
    one.id = next_id_++;
    one.num_answered = 0;
    by_id_[one.id] = session;
    members_[slot].push_back(session);
    send_next(session);
  }
}

void Sessions::send_next(std::size_t session) {
  const Session& one = sessions_[session];
  const std::size_t slot = one.slot;
  Worker& worker = *slots_[slot].worker;
  const Request& request = one.requests[one.num_answered];
  worker.held.push_back({session, one.id, base::now_s()});
  worker.had_rows = true;
  if (!worker.send(request_line(request.kind, one.id, request.fields))) died(slot);
}

void Sessions::attend(std::size_t slot) {
  Slot& of = slots_[slot];
  if (!of.worker) return;
  of.worker->read_errors();
  const Worker::Input input = of.worker->read();
  take_lines(slot);
  if (!of.worker) return;
  if (input == Worker::Input::too_long) {
    if (!of.worker->is_ready) refuse_start(of, "a first line above 64 KiB");
    return take_stray(slot, std::nullopt, "a line above 4 MiB");
  }
  if (input == Worker::Input::ended || !of.worker->flush()) return died(slot);
  check_deadlines(slot);
}

void Sessions::take_lines(std::size_t slot) {
  Slot& of = slots_[slot];
  while (of.worker) {
    const auto line = of.worker->next_line();
    if (!line) return;
    if (!of.worker->is_ready) take_ready(of, *line);
    else if (line->size() > of.worker->max_line_bytes()) take_stray(slot, std::nullopt, "a line above 4 MiB");
    else take_answer(slot, *line);
  }
}

void Sessions::take_answer(std::size_t slot, std::string_view line) {
  Slot& of = slots_[slot];
  nlohmann::ordered_json answer;
  std::string fault;
  try {
    answer = state::parse_ordered_json(line, "the line");
  } catch (const base::Error& error) {
    fault = std::string(" (") + error.what() + ")";
  }
  const std::string shown = base::quoted(line, kShownLine_bytes) + fault;
  const auto id = answer.is_object() ? answer.find("id") : answer.end();
  const bool has_id = id != answer.end() && id->is_number_unsigned();
  const auto known = has_id ? by_id_.find(id->get<std::uint64_t>()) : by_id_.end();
  if (!of.worker->had_rows) refuse_early(of, line);
  if (known == by_id_.end() && has_id && id->get<std::uint64_t>() < next_id_)
    return take_late(slot, "a line that answers no open request: " + shown);
  if (known == by_id_.end())
    return take_stray(slot, std::nullopt, "a line that answers none of its conversations: " + shown);
  const std::size_t session = known->second;
  Session& one = sessions_[session];
  std::vector<HeldRow>& held = of.worker->held;
  const auto open =
      std::ranges::find_if(held, [&](const HeldRow& row) { return row.row == session && row.id == one.id; });
  if (open == held.end() || *id != one.id)
    return take_stray(slot, session, "a line that answers no open request: " + shown);
  if (const auto turn = answer.find("turn"); turn != answer.end() && *turn != one.num_answered)
    return take_stray(
        slot, session,
        "an answer to turn " + turn->dump() + " at turn " + std::to_string(one.num_answered) + ": " + shown);
  held.erase(open);
  answer.erase("id");
  answer.erase("turn");
  const std::string text = answer.dump();
  const Request& request = one.requests[one.num_answered];
  if (one.num_answered < one.answers.size()) {
    if (text != one.answers[one.num_answered])
      return fail(session, SessionFault::protocol, "other answers when the conversation was played again: " + shown);
    if (++one.num_answered < one.requests.size()) send_next(session);
    return;
  }
  std::optional<EnvironmentAnswer> read = reader_(request.kind, answer);
  if (!read) {
    base::log_warning(key() + " wrote an answer that the protocol does not allow: " + shown);
    return fail(session, SessionFault::protocol, "an answer that the protocol does not allow: " + shown);
  }
  one.answers.push_back(text);
  ++one.num_answered;
  if (!read->traceback.empty()) log_once(read->traceback);
  if (read->kind != EnvironmentAnswer::Kind::goes_on) close(session);
  events_.push_back({session, SessionFault::none, *std::move(read), {}});
}

/// Kills the worker after a line that belongs to no open request. It is a fault of its session, or if that is unknown,
/// of all sessions that wait for an answer.
void Sessions::take_stray(std::size_t slot, std::optional<std::size_t> session, const std::string& what) {
  base::log_warning(key() + " wrote " + what);
  last_errors_ = slots_[slot].worker->last_errors();
  std::vector<std::size_t> faulty;
  if (session) faulty.push_back(*session);
  else
    for (const HeldRow& row : slots_[slot].worker->held) faulty.push_back(row.row);
  for (const std::size_t one : faulty) fail(one, SessionFault::protocol, what);
  replace(slot);
}

/// Kills the worker after a line for a conversation of an earlier step. Conversations that wait for an answer are
/// played again, each at most once for such a line or a death.
void Sessions::take_late(std::size_t slot, const std::string& what) {
  base::log_warning(key() + " wrote " + what);
  last_errors_ = slots_[slot].worker->last_errors();
  for (const HeldRow& row : slots_[slot].worker->held) {
    if (++sessions_[row.row].deaths >= 2) fail(row.row, SessionFault::protocol, what);
  }
  replace(slot);
}

double Sessions::limit_s(std::size_t session) const {
  const Session& one = sessions_[session];
  const EnvironmentRequest kind = one.requests[one.num_answered].kind;
  const bool is_first = kind == EnvironmentRequest::start || kind == EnvironmentRequest::row;
  return is_first ? limits_.setup_timeout_s : limits_.timeout_s;
}

/// Fails only the session that is late by most: the others may have waited for it. They are played again.
void Sessions::check_deadlines(std::size_t slot) {
  Worker& worker = *slots_[slot].worker;
  if (!worker.is_ready) return refuse_if_late(slots_[slot]);
  const double now_s = base::now_s();
  const auto late_s = [&](const HeldRow& row) { return now_s - row.since_s - limit_s(row.row); };
  const auto worst = std::ranges::max_element(worker.held, {}, late_s);
  if (worst == worker.held.end() || late_s(*worst) <= 0) return;
  last_errors_ = worker.last_errors();
  fail(worst->row, SessionFault::timeout, {});
  replace(slot);
}

void Sessions::died(std::size_t slot) {
  Slot& of = slots_[slot];
  wait_for_end(of);
  if (!of.worker->had_rows) refuse_start(of, "");
  last_errors_ = of.worker->last_errors();
  std::vector<std::size_t> crashed;
  for (const HeldRow& row : of.worker->held) {
    if (++sessions_[row.row].deaths >= 2) crashed.push_back(row.row);
  }
  base::log_to_file(key() + ": a worker ended" + last_errors_);
  for (const std::size_t one : crashed) fail(one, SessionFault::crashed, {});
  replace(slot);
}

void Sessions::close(std::size_t session) {
  Session& one = sessions_[session];
  one.is_closed = true;
  if (one.slot != kNowhere) std::erase(members_[one.slot], session);
}

void Sessions::fail(std::size_t session, SessionFault fault, std::string detail) {
  if (sessions_[session].has_failed) return;  // one fault is told, the first
  close(session);
  sessions_[session].has_failed = true;
  events_.push_back({session, fault, {}, std::move(detail)});
}

void Sessions::replace(std::size_t slot) {
  end_worker(slots_[slot]);
  ++num_restarts_;
  const std::vector<std::size_t> again = std::exchange(members_[slot], {});
  for (auto session = again.rbegin(); session != again.rend(); ++session) {
    sessions_[*session].slot = kNowhere;
    queue_.push_front(*session);
  }
}

}  // namespace qrl::tasks
