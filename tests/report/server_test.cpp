// Tests the live page's server with requests of a browser and with malformed requests.
#include "report/server.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "report/live_runs.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/processor_time.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

/// Returns a connection to the server on which `text` was sent.
int connected(int port, const std::string& text) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(send(fd, text.data(), text.size(), MSG_NOSIGNAL) >= 0);
  return fd;
}

/// Returns what the server sends until it closes the connection.
std::string rest_of(int fd) {
  std::string text;
  char piece[4096];
  for (ssize_t size = 0; (size = recv(fd, piece, sizeof piece, 0)) > 0;)
    text.append(piece, static_cast<std::size_t>(size));
  close(fd);
  return text;
}

std::string answer_to(int port, const std::string& request) { return rest_of(connected(port, request)); }

void add_row(const fs::path& run, int step) {
  std::ofstream(run / "metrics.jsonl", std::ios::app)
      << nlohmann::json{{"step", step}, {"critic/rewards/mean", 0.5}, {"timing_s/step", 2.0}}.dump() << "\n";
}

fs::path make_run(const fs::path& dir, int num_steps) {
  fs::create_directories(dir / "rollouts");
  std::ofstream(dir / "config.yaml") << "trainer:\n  total_training_steps: 10  # default\n";
  std::ofstream(dir / "rollouts/step_1.jsonl") << "{\"prompt_id\":0,\"response\":\"yes\"}\n";
  for (int step = 1; step <= num_steps; ++step) add_row(dir, step);
  return dir;
}

/// Runs a server over two runs in its own thread.
struct Served {
  explicit Served(const std::string& host = "127.0.0.1", bool asks_token = false)
      : server(make(dir), {host, 0, asks_token}) {
    thread = std::thread([this] { server.run(); });
    const std::string url = server.url();
    const std::size_t colon = url.find(':', 7);
    port = std::stoi(url.substr(colon + 1));
    const std::size_t mark = url.find('?');
    if (mark != std::string::npos) token = url.substr(mark);
    for (int i = 0; i < 12'000 && !client().Get("/" + token); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ~Served() {
    server.stop();
    thread.join();
  }
  static std::vector<fs::path> make(const test::TempDir& dir) {
    make_run(dir / "runs/first", 3);
    make_run(dir / "runs/second", 1);
    fs::create_directories(dir / "runs/no_run");
    return {dir / "runs"};
  }
  httplib::Client client() const { return httplib::Client("127.0.0.1", port); }
  int status(const std::string& path, const httplib::Headers& headers = {}) const {
    const auto result = client().Get(path, headers);
    return result ? result->status : -1;
  }
  nlohmann::json json(const std::string& path) const { return nlohmann::json::parse(client().Get(path)->body); }

  test::TempDir dir;
  report::Server server;
  std::thread thread;
  int port = 0;
  std::string token;
};

}  // namespace

TEST_CASE("server: serves the page, the list of runs, a run, its new rows and a step's samples") {
  const Served served;
  CHECK(served.client().Get("/")->body.find("\"live\":true") != std::string::npos);
  const nlohmann::json list = served.json("/runs");
  REQUIRE(list.size() == 2);
  CHECK(list[0]["name"] == "first");
  CHECK(list[0]["step"] == 3);
  CHECK(list[0]["total_steps"] == 10);
  CHECK(list[0]["left_s"] == 14.0);
  CHECK(list[0]["running"] == false);
  const nlohmann::json run = served.json("/run?run=first");
  CHECK(run["num_rows"] == 3);
  CHECK(run["bytes"] == list[0]["bytes"]);
  add_row(served.dir / "runs/first", 4);
  std::ofstream(served.dir / "runs/first/metrics.jsonl", std::ios::app) << "{\"step\":5,\"cut";
  const nlohmann::json rows = served.json("/rows?run=first&since=" + run["bytes"].dump() + "&cold_since=0");
  REQUIRE(rows["rows"].size() == 1);
  CHECK(rows["rows"][0]["step"] == 4);
  CHECK(served.json("/runs")[0]["bytes"] == rows["bytes"]);
  CHECK(served.json("/samples?run=first&step=1")["groups"][0]["samples"][0]["response"] == "yes");
}

TEST_CASE("server: requests outside the page's API get a 4xx error") {
  const Served served;
  CHECK(served.status("/run?run=none") == 404);
  CHECK(served.status("/run?run=..%2F..%2Fetc") == 404);
  CHECK(served.status("/run?run=no_run") == 404);
  CHECK(served.status("/run") == 404);
  CHECK(served.status("/../../etc/passwd") == 404);
  CHECK(served.status("/rows?run=first&since=-1&cold_since=0") == 400);
  CHECK(served.status("/rows?run=first&since=x&cold_since=0") == 400);
  CHECK(served.status("/rows?run=first&since=0") == 400);
  CHECK(served.status("/rows?run=first&since=99999999999&cold_since=0") == 200);
  CHECK(served.status("/samples?run=first&step=99") == 404);
  CHECK(served.status("/samples?run=first&step=" + std::string(3000, '9')) == 400);
  const auto large = served.client().Post("/runs", std::string(10 << 20, 'x'), "text/plain");
  CHECK((!large || (large->status >= 400 && large->status < 500)));
  CHECK(served.status("/runs") == 200);  // the server still answers
}

TEST_CASE("server: requests that name another host are refused, those for this machine are not") {
  const Served served;
  CHECK(served.status("/runs", {{"Host", "evil.example"}}) == 403);
  CHECK(served.status("/runs", {{"Host", "127.0.0.1.evil.example:" + std::to_string(served.port)}}) == 403);
  CHECK(served.status("/runs", {{"Host", "localhost:" + std::to_string(served.port)}}) == 200);
}

TEST_CASE("server: every request needs the printed token, also locally, unless disabled") {
  for (const char* host : {"0.0.0.0", "127.0.0.1"}) {
    const Served served(host, true);
    REQUIRE(served.token.size() > 32);
    CHECK(served.status("/runs") == 401);
    CHECK(served.status("/") == 401);
    CHECK(served.status("/runs?token=wrong") == 401);
    CHECK(served.status("/runs" + served.token + "0") == 401);
    CHECK(served.status("/runs" + served.token) == 200);
  }
  const Served served;
  CHECK_THROWS_WITH(report::Server({served.dir / "runs"}, {"0.0.0.0", 0, false}),
                    Catch::Contains("--no-token: expected a loopback address"));
}

TEST_CASE("server: an IPv6 address is printed as browsers read it, and host names ignore case") {
  const Served served;
  CHECK(served.status("/runs", {{"Host", "LOCALHOST"}}) == 200);
  try {
    const report::Server six({served.dir / "runs"}, {"::1", 0, false});
    CHECK(six.url().starts_with("http://[::1]:"));
  } catch (const base::Error&) {
    test::skip("this machine has no ::1");
  }
}

TEST_CASE("server: a run deleted while viewed disappears, the others stay") {
  const Served served;
  CHECK(served.status("/run?run=first") == 200);
  fs::remove_all(served.dir / "runs/first");
  CHECK(served.status("/run?run=first") == 404);
  CHECK(served.status("/rows?run=first&since=0&cold_since=0") == 404);
  CHECK(served.json("/runs").size() == 1);
}

TEST_CASE("server: a file truncated by a resume is read again") {
  const test::TempDir dir;
  make_run(dir / "run", 3);
  report::LiveRuns runs({dir / "run"});
  CHECK(runs.list()[0]["step"] == 3);
  std::ofstream(dir / "run/metrics.jsonl") << "";
  add_row(dir / "run", 1);
  CHECK(runs.list()[0]["step"] == 1);
}

TEST_CASE("server: a row of many names takes linear time") {
  const test::TempDir dir;
  make_run(dir / "run", 1);
  nlohmann::json row = {{"step", 2}};
  for (int i = 0; i < 150'000; ++i) row["critic/rewards/" + std::to_string(i)] = i;
  std::ofstream(dir / "run/metrics.jsonl", std::ios::app) << row.dump() << "\n";
  report::LiveRuns runs({dir / "run"});
  runs.list();
  std::optional<nlohmann::ordered_json> rows, run;
  CHECK(test::seconds_on_xeon([&] { rows = runs.rows("run", 0, 0); }) < 3);  // 0.5; quadratic: more than 20
  CHECK(rows.value()["rows"][1].size() == 150'001);
  CHECK(test::seconds_on_xeon([&] { run = runs.run("run"); }) < 3);
  CHECK(run.value()["num_rows"] == 2);
}

TEST_CASE("server: two hundred slow clients do not block others") {
  const Served served;
  std::vector<int> sockets;
  for (int i = 0; i < 200; ++i) sockets.push_back(connected(served.port, "GET / HTTP/1.1\r\nHost: localhost\r\nX-a: "));
  std::atomic<bool> ends = false;
  std::thread slow([&] {
    while (!ends) {
      for (const int fd : sockets) (void)!send(fd, "b", 1, MSG_NOSIGNAL);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  // Far longer than an answer takes, and shorter than the server's timeout for a slow request head.
  httplib::Client client = served.client();
  client.set_read_timeout(4);
  for (int i = 0; i < 4; ++i) {
    const auto result = client.Get("/runs");
    REQUIRE(result);
    CHECK(result->status == 200);
  }
  ends = true;
  slow.join();
  for (const int fd : sockets) close(fd);
}

TEST_CASE("server: clients that read no answers, and more clients than slots, do not block others") {
  const Served served;
  std::vector<int> sockets;
  for (int i = 0; i < 300; ++i) sockets.push_back(connected(served.port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  for (int i = 0; i < 600; ++i) sockets.push_back(connected(served.port, "GET /"));
  CHECK(served.status("/runs") == 200);
  for (const int fd : sockets) close(fd);
}

TEST_CASE("server: an endless request head is refused at its limit, before the token check") {
  const Served served("127.0.0.1", true);
  const std::string begin = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  CHECK_THAT(answer_to(served.port, begin + "X: " + std::string(20'000, 'a')), Catch::StartsWith("HTTP/1.1 431 "));
  CHECK_THAT(answer_to(served.port, "GET /" + std::string(20'000, 'a')), Catch::StartsWith("HTTP/1.1 431 "));
  std::string lines = begin;
  for (int i = 0; i < 200; ++i) lines += "X: a\r\n";
  CHECK_THAT(answer_to(served.port, lines + "\r\n"), Catch::StartsWith("HTTP/1.1 431 "));
}

TEST_CASE("server: anything except an HTTP/1 request for a path is refused at once") {
  const Served served;
  const auto status = [&](const std::string& head) { return answer_to(served.port, head + "\r\n").substr(0, 13); };
  const std::string host = "Host: localhost\r\n";
  CHECK(status("GET /runs HTTP/1.1\r\n" + host) == "HTTP/1.1 200 ");
  CHECK(status("GET http://evil.example/runs HTTP/1.1\r\n" + host) == "HTTP/1.1 400 ");
  CHECK(status("GET /runs HTTP/1.1\r\nHost: evil.example\r\n" + host) == "HTTP/1.1 400 ");
  CHECK(status("GET /runs HTTP/2\r\n" + host) == "HTTP/1.1 400 ");
  CHECK(status("GET /runs\r\n" + host) == "HTTP/1.1 400 ");
  CHECK(status("GET /runs HTTP/1.1\r\nno colon\r\n") == "HTTP/1.1 400 ");
  CHECK(status("\r\n") == "HTTP/1.1 400 ");
  for (const char* method : {"POST", "PUT", "DELETE", "FOO", "TRACE"})
    CHECK(status(std::string(method) + " /runs HTTP/1.1\r\n" + host) == "HTTP/1.1 405 ");
  CHECK(status("GET /runs HTTP/1.0\r\n") == "HTTP/1.1 403 ");  // it names no host
  const std::string head = answer_to(served.port, "HEAD /runs HTTP/1.1\r\n" + host + "\r\n");
  CHECK_THAT(head, Catch::StartsWith("HTTP/1.1 200 ") && Catch::EndsWith("\r\n\r\n"));
}

TEST_CASE("server: an unreadable run folder is listed with the reason and blocks no other") {
  const Served served;
  make_run(served.dir / "runs/hostile", 1);
  REQUIRE(mkfifo((served.dir / "runs/hostile/sessions.jsonl").c_str(), 0600) == 0);
  const nlohmann::json list = served.json("/runs");
  REQUIRE(list.size() == 3);
  CHECK(list[1]["name"] == "hostile");
  CHECK_THAT(list[1]["ended"].get<std::string>(), Catch::Contains("a device or pipe"));
  CHECK(list[0]["step"] == 3);
  CHECK(served.status("/run?run=hostile") == 500);
}

TEST_CASE("server: a used address is an input error, and so is a missing folder") {
  const Served served;
  CHECK_THROWS_WITH(report::Server({served.dir / "runs"}, {"127.0.0.1", served.port, false}),
                    Catch::Contains("a free address of this machine"));
  CHECK_THROWS_WITH(report::LiveRuns({served.dir / "none"}),
                    Catch::Contains("a run folder, or a folder that contains runs"));
}
