#include "report/sessions.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "report/rows.h"
#include "state/file.h"
#include "state/folder.h"
#include "state/json.h"

namespace qrl::report {

namespace {

using Json = nlohmann::ordered_json;

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon + 2 < line.size()) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string line_of(const Session& session) {
  Json line;
  visit_members(session, [&](const char* name, const auto& value) { line[name] = value; });
  if (session.ended.empty()) {
    line["ended"] = nullptr;
    line.erase("ended_unix");
    line.erase("last_step");
  }
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Session session_here() {
  Session session;
  session.unix_s = base::unix_s();
  char host[256] = "unknown";
  (void)gethostname(host, sizeof host - 1);
  session.host = host;
  session.processor = processor_name();
  return session;
}

void begin_session(const std::filesystem::path& file, const Session& session) {
  state::File::append(file, true).write(line_of(session));
}

void end_session(const std::filesystem::path& file, std::int64_t last_step, const std::string& ended) {
  std::vector<Session> sessions = read_sessions(file);
  if (sessions.empty()) return;
  sessions.back().ended_unix_s = base::unix_s();
  sessions.back().last_step = last_step;
  sessions.back().ended = ended;
  std::string text;
  for (const Session& session : sessions) text += line_of(session);
  state::replace_file(file, text);
}

std::vector<Session> read_sessions(const std::filesystem::path& file) {
  std::vector<Session> sessions;
  state::require_no_special_file(file);
  std::ifstream in(file);
  for (std::string text; std::getline(in, text);) {
    const Json line = state::ordered_json_or_null(text);
    if (!line.is_object() || !line.contains("unix")) continue;
    Session session;
    visit_members(session, [&](const char* name, auto& value) {
      constexpr bool is_text = std::is_same_v<decltype(value), std::string&>;
      const auto found = line.find(name);
      if (found != line.end() && (is_text ? found->is_string() : found->is_number())) found->get_to(value);
    });
    sessions.push_back(std::move(session));
  }
  return sessions;
}

}  // namespace qrl::report
