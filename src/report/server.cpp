#include "report/server.h"

#include <random>

#include "base/error.h"
#include "base/text.h"
#include "report/listener.h"
#include "report/live_runs.h"
#include "report/page.h"
#include "report/page_data.h"

namespace qrl::report {

namespace {

using Json = nlohmann::ordered_json;

bool is_this_machine(const std::string& host) {
  return host == "127.0.0.1" || host == "localhost" || host == "::1" || host == "[::1]";
}

std::string make_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) token += base::format("%08x", random());
  return token;
}

/// Compares in constant time, so that timing does not reveal the token.
bool equal(const std::string& a, const std::string& b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

std::string host_of(const std::string& header) {
  const std::size_t colon = header.rfind(':'), bracket = header.rfind(']');
  const bool has_port = colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  return header.substr(0, has_port ? colon : header.size());
}

std::string parameter(const Request& request, const std::string& name) {
  const auto found = request.parameters.find(name);
  return found == request.parameters.end() ? "" : found->second;
}

Response refusal(int status, const std::string& why) { return {status, "text/plain; charset=utf-8", why + "\n"}; }

Response answer(const std::optional<Json>& json) {
  if (!json) return refusal(404, "no such run or step");
  return {200, "application/json", json->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

}  // namespace

struct Server::Parts {
  Parts(const std::vector<std::filesystem::path>& roots, const ServerOptions& server_options)
      : runs(roots), options(server_options), listener(options.host, options.port) {}

  LiveRuns runs;
  ServerOptions options;
  Listener listener;
  std::string token;  ///< empty: no token is required
  std::string page;

  int refusal_of(const Request& request) const {
    if (request.method != "GET" && request.method != "HEAD") return 405;
    if (!token.empty()) return equal(parameter(request, "token"), token) ? 0 : 401;
    // Prevents DNS rebinding: a web page whose domain resolves to this machine must not read runs.
    return is_this_machine(host_of(request.host)) ? 0 : 403;
  }

  Response rows(const Request& request) {
    const auto since = base::number_in<std::uint64_t>(parameter(request, "since"));
    const auto cold_since = base::number_in<std::uint64_t>(parameter(request, "cold_since"));
    if (!since || !cold_since) return refusal(400, "since, cold_since: expected byte offsets");
    return answer(runs.rows(parameter(request, "run"), *since, *cold_since));
  }

  Response samples(const Request& request) {
    const auto step = base::number_in<std::int64_t>(parameter(request, "step"));
    if (!step) return refusal(400, "step: expected a number");
    return answer(runs.samples(parameter(request, "run"), *step));
  }

  Response respond(const Request& request) try {
    const int status = refusal_of(request);
    if (status == 401) return refusal(401, "the URL lacks the token that qrl-train watch printed");
    if (status != 0) return refusal(status, "request not supported");
    if (request.path == "/") return {200, "text/html; charset=utf-8", page};
    if (request.path == "/runs") return answer(runs.list());
    if (request.path == "/run") return answer(runs.run(parameter(request, "run")));
    if (request.path == "/rows") return rows(request);
    if (request.path == "/validation") return answer(runs.validation(parameter(request, "run")));
    if (request.path == "/samples") return samples(request);
    return refusal(404, "no such page");
  } catch (const std::exception&) {
    return refusal(500, "the run's files could not be read");
  }
};

Server::Server(const std::vector<std::filesystem::path>& roots, const ServerOptions& options) {
  QRL_REQUIRE(options.asks_token || is_this_machine(options.host), "--no-token",
              "a loopback address, such as 127.0.0.1", "--host " + options.host,
              "omit one of the two: others on the network could read the runs");
  parts_ = std::make_unique<Parts>(roots, options);
  if (options.asks_token) parts_->token = make_token();
  const Json data = {{"live", true}, {"panels", panels_json()}, {"runs", Json::array()}, {"left_out", ""}};
  parts_->page = make_page(script_json(data), true);
}

Server::~Server() { stop(); }

std::string Server::url() const {
  const std::string& host = parts_->options.host;
  const bool needs_brackets = host.find(':') != std::string::npos && !host.starts_with('[');
  const std::string at =
      "http://" + (needs_brackets ? "[" + host + "]" : host) + ":" + std::to_string(parts_->listener.port()) + "/";
  return parts_->token.empty() ? at : at + "?token=" + parts_->token;
}

void Server::run() {
  parts_->listener.run([this](const Request& request) { return parts_->respond(request); });
}

void Server::stop() { parts_->listener.stop(); }

}  // namespace qrl::report
