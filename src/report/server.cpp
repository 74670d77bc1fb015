#include "report/server.h"

#include <httplib.h>

#include <charconv>
#include <random>

#include "base/error.h"
#include "report/live_runs.h"
#include "report/page.h"
#include "report/page_data.h"

namespace qrl::report {

namespace {

using Json = nlohmann::ordered_json;

bool is_this_machine(const std::string& host) {
  return host == "127.0.0.1" || host == "localhost" || host == "::1" || host == "[::1]";
}

/// 128 random bits.
std::string make_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) {
    char word[16];
    std::snprintf(word, sizeof word, "%08x", random());
    token += word;
  }
  return token;
}

/// Without a difference in time that tells where two texts differ.
bool equal(const std::string& a, const std::string& b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

/// The host of a Host header, without its port.
std::string host_of(const std::string& header) {
  const std::size_t colon = header.rfind(':'), bracket = header.rfind(']');
  const bool has_port = colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  return header.substr(0, has_port ? colon : header.size());
}

template <class Number>
std::optional<Number> read_number(const std::string& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

void refuse(httplib::Response& response, int status, const std::string& why) {
  response.status = status;
  response.set_content(why + "\n", "text/plain; charset=utf-8");
}

void answer(httplib::Response& response, const std::optional<Json>& json) {
  if (!json) return refuse(response, 404, "no such run or step");
  response.set_content(json->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), "application/json");
}

}  // namespace

struct Server::Parts {
  explicit Parts(const std::vector<std::filesystem::path>& roots) : runs(roots) {}

  LiveRuns runs;
  httplib::Server http;
  ServerOptions options;
  std::string token;  ///< empty: none is asked for
  int port = 0;
  std::string page;

  /// Why a request is not answered; 0: it is.
  int refusal(const httplib::Request& request) const {
    if (request.method != "GET" && request.method != "HEAD") return 405;
    if (!token.empty()) return equal(request.get_param_value("token"), token) ? 0 : 401;
    // A page of another name that leads to this machine (DNS rebinding) must not read the runs.
    return is_this_machine(host_of(request.get_header_value("Host"))) ? 0 : 403;
  }

  void limit() {
    constexpr std::size_t kThreads = 128, kMaxBodyBytes = 4096;
    constexpr int kTimeoutS = 5;
    http.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    http.set_payload_max_length(kMaxBodyBytes);
    http.set_socket_options([](socket_t socket) {  // the library's own let two servers share a port
      const int yes = 1;
      (void)setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    http.set_read_timeout(kTimeoutS);
    http.set_write_timeout(kTimeoutS);
    http.set_default_headers({{"Cache-Control", "no-store"},
                              {"X-Content-Type-Options", "nosniff"},
                              {"X-Frame-Options", "DENY"},
                              {"Referrer-Policy", "no-referrer"}});
  }

  void route() {
    http.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      const int status = refusal(request);
      if (status == 0) return httplib::Server::HandlerResponse::Unhandled;
      refuse(response, status,
             status == 401 ? "the address lacks the token that qrl-train watch printed" : "not answered here");
      return httplib::Server::HandlerResponse::Handled;
    });
    http.set_exception_handler([](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
      refuse(response, 500, "the run's files could not be read");
    });
    http.Get("/", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(page, "text/html; charset=utf-8");
    });
    http.Get("/runs", [this](const httplib::Request&, httplib::Response& response) { answer(response, runs.list()); });
    http.Get("/run", [this](const httplib::Request& request, httplib::Response& response) {
      answer(response, runs.run(request.get_param_value("run")));
    });
    http.Get("/rows", [this](const httplib::Request& request, httplib::Response& response) {
      const auto since = read_number<std::uint64_t>(request.get_param_value("since"));
      const auto cold_since = read_number<std::uint64_t>(request.get_param_value("cold_since"));
      if (!since || !cold_since) return refuse(response, 400, "since, cold_since: expected numbers of bytes");
      answer(response, runs.rows(request.get_param_value("run"), *since, *cold_since));
    });
    http.Get("/validation", [this](const httplib::Request& request, httplib::Response& response) {
      answer(response, runs.validation(request.get_param_value("run")));
    });
    http.Get("/samples", [this](const httplib::Request& request, httplib::Response& response) {
      const auto step = read_number<std::int64_t>(request.get_param_value("step"));
      if (!step) return refuse(response, 400, "step: expected a number");
      answer(response, runs.samples(request.get_param_value("run"), *step));
    });
  }
};

Server::Server(const std::vector<std::filesystem::path>& roots, const ServerOptions& options)
    : parts_(std::make_unique<Parts>(roots)) {
  Parts& parts = *parts_;
  parts.options = options;
  if (!is_this_machine(options.host)) parts.token = make_token();
  const Json data = {{"live", true}, {"panels", panels_json()}, {"runs", Json::array()}, {"left_out", ""}};
  parts.page = make_page(script_json(data), true);
  parts.limit();
  parts.route();
  const std::string& host = options.host;
  if (options.port == 0) parts.port = parts.http.bind_to_any_port(host);
  else parts.port = parts.http.bind_to_port(host, options.port) ? options.port : -1;
  QRL_REQUIRE(parts.port > 0, "--host " + host + " --port " + std::to_string(options.port), "an address that is free",
              "one that is taken or not this machine's", "take another --port; 0 takes any");
}

Server::~Server() { stop(); }

std::string Server::url() const {
  const std::string at = "http://" + parts_->options.host + ":" + std::to_string(parts_->port) + "/";
  return parts_->token.empty() ? at : at + "?token=" + parts_->token;
}

void Server::run() { parts_->http.listen_after_bind(); }

void Server::stop() { parts_->http.stop(); }

}  // namespace qrl::report
