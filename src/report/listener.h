// Owns the connections of a small HTTP server: one thread that waits for all of them, within limits of size and time,
// and a few that answer. Knows nothing of what is asked.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "report/http.h"

namespace qrl::report {

struct ListenerLimits {
  double head_s = 5;       ///< longest wait for a whole head
  double response_s = 30;  ///< longest time that a client takes to read a response
  int max_connections = 512;
};

/// Each connection has one request without a body. A head is refused beyond kMaxHead_bytes. A connection beyond the
/// largest number ends that with the oldest unfinished head: slow clients leave room for others.
class Listener {
 public:
  /// Binds to `host` and `port` (0: any that is free). Throws an input error when the address is not to be had.
  Listener(const std::string& host, int port, const ListenerLimits& limits = {});
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const;
  /// Serves until `stop` is called, from any thread. `answer` is called by several threads.
  void run(const std::function<Response(const Request&)>& answer);
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace qrl::report
