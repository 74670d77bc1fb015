// Owns a small HTTP server's connections: one thread polls them within limits, a few threads answer.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "report/http.h"

namespace qrl::report {

struct ListenerLimits {
  double head_s = 5;       ///< longest wait for a complete head
  double response_s = 30;  ///< longest time for a client to read a response
  int max_connections = 512;
};

/// Accepts connections of one request without a body each. Heads longer than kMaxHead_bytes are rejected; at the limit,
/// a new connection closes the oldest unfinished one.
class Listener {
 public:
  /// Binds to `host` and `port` (0: any free port), or throws an input error.
  Listener(const std::string& host, int port, const ListenerLimits& limits = {});
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const;
  /// Serves until any thread calls `stop`, with several calls of `answer` at once.
  void run(const std::function<Response(const Request&)>& answer);
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace qrl::report
