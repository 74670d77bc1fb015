#include "tasks/environment/environment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/threads.h"

namespace qrl::tasks {

namespace {

constexpr const char* kEnvironmentKey = "environment.command";

std::string row_name(std::string_view set, std::int64_t index) {
  return std::string(set) + " row " + std::to_string(index) + " of the environment";
}

}  // namespace

Environment::Environment(const EnvironmentOptions& options)
    : options_(options),
      settings_(
          crew_settings(kEnvironmentSection, options.argv, options.folder, options.env, options.memory_mb << 20)) {
  settings_.num_workers = options.workers > 0 ? options.workers : std::max(1, base::num_threads() / 2);
  settings_.start_timeout_s = options.setup_timeout_s;
  settings_.start_key = "environment.setup_timeout_s";
  settings_.work = "conversation";
  settings_.max_line_bytes = kMaxEnvironmentLine_bytes;
}

const EnvironmentReady& Environment::start(const Question* first) {
  if (sessions_) return ready_;
  CrewSettings settings = settings_;
  const char* role = options_.role == ObservationRole::tool ? "tool" : "user";
  settings.hello = environment_hello({options_.seed, options_.run_folder, is_chat() ? "chat" : "continue", role,
                                      options_.max_turns, options_.sessions},
                                     first);
  auto sessions = std::make_unique<Sessions>(
      std::move(settings), SessionLimits{options_.sessions, options_.timeout_s, options_.setup_timeout_s},
      [this](auto request, const auto& answer) { return read_environment_answer(request, answer, ready_, is_chat()); });
  if (shows_log_) sessions->show_log();
  if (!log_file_.empty()) sessions->log_to(log_file_);
  ready_ = read_environment_ready(sessions->start());
  const bool shows_tools = is_chat() && options_.role == ObservationRole::tool;
  QRL_REQUIRE(ready_.tools.empty() || shows_tools, kEnvironmentKey,
              "tools in the ready line only with environment.style chat and role tool", "tools",
              "write them into system, or into the prompts");
  QRL_REQUIRE(ready_.system.empty() || is_chat(), kEnvironmentKey,
              "system in the ready line only with environment.style chat", base::quoted(ready_.system));
  QRL_REQUIRE(ready_.tools.empty() || options_.max_turns > 1, "environment.max_turns",
              "2 or more with tools, because the model answers after a call", "1");
  if (!ready_.scores.empty()) weights_ = chosen_weights(ready_, options_.weights);
  for (const std::string& note : ready_.notes) sessions->log_once(kEnvironmentKey + (": " + note));
  sessions_ = std::move(sessions);
  return ready_;
}

Sessions& Environment::sessions() {
  start();
  return *sessions_;
}

std::vector<std::string> Environment::rows(std::string_view set, std::int64_t count) {
  Sessions& from = sessions();
  std::vector<std::string> rows(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) from.open(EnvironmentRequest::row, row_fields(set, i));
  for (std::int64_t num_left = count; num_left > 0;) {
    for (SessionEvent& event : from.take_events(1)) {
      const auto index = static_cast<std::int64_t>(event.session);
      QRL_REQUIRE(event.fault == SessionFault::none, kEnvironmentKey,
                  row_name(set, index) + " within environment.setup_timeout_s",
                  event.detail.empty() ? "no answer" : event.detail, from.last_errors());
      QRL_REQUIRE(event.answer.kind == EnvironmentAnswer::Kind::row, row_name(set, index), "", event.answer.text);
      rows[event.session] = std::move(event.answer.text);
      --num_left;
    }
  }
  from.clear();
  return rows;
}

Verdict Environment::verdict(std::vector<double> scores, const std::string& closing) {
  const auto answer = closing.empty() ? nlohmann::json::object() : nlohmann::json::parse(closing);
  const std::size_t num_scores = scores.size();
  std::optional<Verdict> verdict = verdict_of(answer, ready_, std::move(scores), options_.correct_at);
  QRL_INVARIANT(verdict.has_value(), "environment", "an answer that was checked when it arrived", closing);
  if (!verdict->verifier_error) return *std::move(verdict);
  return failed(verdict->reason, verdict->detail, num_scores);
}

Verdict Environment::failed(std::string_view reason, std::string detail, std::size_t num_scores) const {
  Verdict verdict = failed_verdict(reason, std::move(detail));
  verdict.dropped = options_.on_error == OnVerifierError::drop;
  verdict.scores.assign(num_scores, verdict.dropped ? std::numeric_limits<double>::quiet_NaN() : 0.0);
  return verdict;
}

void Environment::log_to(const std::filesystem::path& file) {
  log_file_ = file;
  if (sessions_) sessions_->log_to(file);
}

void Environment::show_log() {
  shows_log_ = true;
  if (sessions_) sessions_->show_log();
}

}  // namespace qrl::tasks
