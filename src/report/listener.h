#pragma once

#include <functional>
#include <memory>
#include <string>

#include "report/http.h"

namespace qrl::report {

struct ListenerLimits {
  double head_s = 5;       ///< seconds to receive a complete request head
  double response_s = 30;  ///< seconds for a client to read a response
  int max_connections = 512;
};

/// Accepts connections, each for one request without a body. Rejects heads above kMaxHead_bytes. At the connection
/// limit, a new connection closes the oldest connection without a request in progress. If each has one, it closes the
/// oldest.
class Listener {
 public:
  /// Binds to `host` and `port` (0: any free port), or throws an input error.
  Listener(const std::string& host, int port, const ListenerLimits& limits = {});
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const;
  /// Serves until any thread calls `stop`. Calls `answer` on several threads at once.
  void run(const std::function<Response(const Request&)>& answer);
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace qrl::report
