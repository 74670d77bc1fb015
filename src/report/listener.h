// Owns the connections of a small HTTP server: one thread polls them all, within limits of size and time, and a few
// threads answer.
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

/// Accepts connections, each with one request without a body. A head longer than kMaxHead_bytes is rejected. At the
/// limit of connections, a new one closes the oldest unfinished one.
class Listener {
 public:
  /// Binds to `host` and `port` (0: any free port). Throws an input error if the address is not available.
  Listener(const std::string& host, int port, const ListenerLimits& limits = {});
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const;
  /// Serves until any thread calls `stop`. Several threads call `answer` at once.
  void run(const std::function<Response(const Request&)>& answer);
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace qrl::report
