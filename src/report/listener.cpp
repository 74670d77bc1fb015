#include "report/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace qrl::report {

namespace {

constexpr std::size_t kNumAnswerers = 4;
constexpr double kDrain_s = 1;  ///< seconds to read and discard what a client sends after the response

int bound_socket(const std::string& host, int port) {
  const bool has_brackets = host.starts_with('[') && host.ends_with(']');
  const std::string name = has_brackets ? host.substr(1, host.size() - 2) : host;
  addrinfo hints{}, *all = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &all) != 0) return -1;
  int found = -1;
  for (const addrinfo* one = all; one != nullptr && found < 0; one = one->ai_next) {
    const int fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int yes = 1;
    if (fd >= 0) (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd >= 0 && bind(fd, one->ai_addr, one->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) found = fd;
    else if (fd >= 0) close(fd);
  }
  freeaddrinfo(all);
  return found;
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return -1;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

struct Listener::Parts {
  enum class Stage : std::uint8_t { head, answer, response, drain };

  struct Connection {
    int socket = -1;
    std::uint64_t number = 0;
    Stage stage = Stage::head;
    double end_s = 0;  ///< deadline of the current stage
    std::string received, response;
    std::size_t num_sent = 0;
  };

  ListenerLimits limits;
  int listening = -1, wake = -1, port = -1;
  std::atomic<bool> is_stopped = false;
  std::vector<Connection> connections;
  std::uint64_t next_number = 0;

  std::mutex mutex;
  std::condition_variable has_work;
  std::deque<std::pair<std::uint64_t, Request>> asked;
  std::vector<std::pair<std::uint64_t, std::string>> answered;

  ~Parts() {
    for (const Connection& one : connections) close(one.socket);
    for (const int fd : {listening, wake}) {
      if (fd >= 0) close(fd);
    }
  }
  void wake_up() const {
    const std::uint64_t one = 1;
    (void)!write(wake, &one, sizeof one);
  }
  void begin_response(Connection& connection, std::string text) const {
    connection.response = std::move(text);
    connection.stage = Stage::response;
    connection.end_s = base::now_s() + limits.response_s;
  }
  void refuse(Connection& connection, int status) const {
    begin_response(connection, written({status, "text/plain; charset=utf-8", "request not supported\n"}, true));
  }

  void make_room();
  void accept_all();
  // These functions serve a connection, and return false if it must be closed.
  bool receive(Connection& connection);
  bool send_some(Connection& connection) const;
  bool attend(Connection& connection, short events);
  void take_answers();
  void answer_all(const std::function<Response(const Request&)>& answer);
  void serve();
};

void Listener::Parts::make_room() {
  const auto unfinished = [](const Connection& one) { return one.stage == Stage::head || one.stage == Stage::drain; };
  const auto longer = [&](const Connection& a, const Connection& b) {
    return std::pair(!unfinished(a), a.end_s) < std::pair(!unfinished(b), b.end_s);
  };
  const auto oldest = std::ranges::min_element(connections, longer);
  if (oldest == connections.end()) return;
  close(oldest->socket);
  connections.erase(oldest);
}

void Listener::Parts::accept_all() {
  for (;;) {
    const int socket = accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0 && (errno == EMFILE || errno == ENFILE) && !connections.empty()) {
      make_room();
      continue;
    }
    if (socket < 0) return;
    if (std::cmp_greater_equal(connections.size(), limits.max_connections)) make_room();
    Connection& one = connections.emplace_back();
    one.socket = socket;
    one.number = next_number++;
    one.end_s = base::now_s() + limits.head_s;
  }
}

bool Listener::Parts::receive(Connection& connection) {
  char piece[4096];
  const ssize_t size = recv(connection.socket, piece, sizeof piece, 0);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  if (size == 0) return false;
  if (connection.stage == Stage::drain) return true;
  connection.received.append(piece, static_cast<std::size_t>(size));
  const std::size_t end = head_end(connection.received);
  if (end == std::string::npos) {
    if (connection.received.size() > kMaxHead_bytes) refuse(connection, 431);
    return true;
  }
  Request request;
  const int status =
      end > kMaxHead_bytes ? 431 : read_head(std::string_view(connection.received).substr(0, end), request);
  connection.received = {};
  if (status != 0) {
    refuse(connection, status);
    return true;
  }
  connection.stage = Stage::answer;
  connection.end_s = std::numeric_limits<double>::infinity();
  const std::scoped_lock lock(mutex);
  asked.emplace_back(connection.number, std::move(request));
  has_work.notify_one();
  return true;
}

bool Listener::Parts::send_some(Connection& connection) const {
  const std::string& text = connection.response;
  const ssize_t size =
      send(connection.socket, text.data() + connection.num_sent, text.size() - connection.num_sent, MSG_NOSIGNAL);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  connection.num_sent += static_cast<std::size_t>(size);
  if (connection.num_sent < text.size()) return true;
  // Closes only the sending side, because closing with unread bytes would discard the response.
  shutdown(connection.socket, SHUT_WR);
  connection.response = {};
  connection.stage = Stage::drain;
  connection.end_s = base::now_s() + kDrain_s;
  return true;
}

bool Listener::Parts::attend(Connection& connection, short events) {
  if (events == 0) return true;
  if (connection.stage == Stage::response) return send_some(connection);
  if (connection.stage == Stage::answer) return true;  // if the client has gone, sending will fail
  return receive(connection);
}

void Listener::Parts::take_answers() {
  std::vector<std::pair<std::uint64_t, std::string>> taken;
  {
    const std::scoped_lock lock(mutex);
    taken.swap(answered);
  }
  for (auto& [number, text] : taken) {
    const auto one = std::ranges::find(connections, number, &Connection::number);
    if (one != connections.end()) begin_response(*one, std::move(text));
  }
}

void Listener::Parts::answer_all(const std::function<Response(const Request&)>& answer) {
  for (;;) {
    std::unique_lock lock(mutex);
    has_work.wait(lock, [&] { return is_stopped || !asked.empty(); });
    if (is_stopped) return;
    const auto [number, request] = std::move(asked.front());
    asked.pop_front();
    lock.unlock();
    std::string text = written(answer(request), request.method != "HEAD");
    lock.lock();
    answered.emplace_back(number, std::move(text));
    lock.unlock();
    wake_up();
  }
}

void Listener::Parts::serve() {
  while (!is_stopped) {
    std::vector<pollfd> files = {{listening, POLLIN, 0}, {wake, POLLIN, 0}};
    double end_s = base::now_s() + 1;
    for (const Connection& one : connections) {
      const short events = one.stage == Stage::response ? POLLOUT : one.stage == Stage::answer ? short{0} : POLLIN;
      files.push_back({events == 0 ? -1 : one.socket, events, 0});
      end_s = std::min(end_s, one.end_s);
    }
    const double left_s = std::max(0.0, end_s - base::now_s());
    (void)poll(files.data(), files.size(), static_cast<int>(left_s * 1000) + 1);
    std::uint64_t count = 0;
    if (files[1].revents != 0) (void)!read(wake, &count, sizeof count);
    const double now_s = base::now_s();
    std::size_t i = 2;
    std::erase_if(connections, [&](Connection& one) {
      const bool stays_open = attend(one, files[i++].revents) && now_s < one.end_s;
      if (!stays_open) close(one.socket);
      return !stays_open;
    });
    take_answers();
    if (files[0].revents != 0) accept_all();
  }
}

Listener::Listener(const std::string& host, int port, const ListenerLimits& limits)
    : parts_(std::make_unique<Parts>()) {
  parts_->limits = limits;
  parts_->listening = bound_socket(host, port);
  parts_->port = parts_->listening < 0 ? -1 : port_of(parts_->listening);
  QRL_REQUIRE(parts_->port > 0, "--host " + host + " --port " + std::to_string(port), "a free address of this machine",
              "an address in use or of another machine", "use another --port; 0 selects a free one");
  parts_->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  QRL_INVARIANT(parts_->wake >= 0, "eventfd", "a descriptor", "none", "raise ulimit -n");
}

Listener::~Listener() = default;

int Listener::port() const { return parts_->port; }

void Listener::run(const std::function<Response(const Request&)>& answer) {
  std::vector<std::jthread> answerers;
  for (std::size_t i = 0; i < kNumAnswerers; ++i) answerers.emplace_back([&] { parts_->answer_all(answer); });
  parts_->serve();
}

void Listener::stop() {
  {
    const std::scoped_lock lock(parts_->mutex);
    parts_->is_stopped = true;
  }
  parts_->has_work.notify_all();
  parts_->wake_up();
}

}  // namespace qrl::report
