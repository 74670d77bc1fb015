// Owns the live page's HTTP server: who may ask, and which question is which. Knows nothing of the answers' contents.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace qrl::report {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 6007;  ///< 0: any that is free
  bool asks_token = true;
};

class Server {
 public:
  /// Listens. Throws an input error when the address is not available, or when it is one of the network's and no token
  /// is required.
  Server(const std::vector<std::filesystem::path>& roots, const ServerOptions& options);
  ~Server();

  /// The address of the page, with the token where there is one.
  std::string url() const;
  /// Answers until `stop` is called, from any thread.
  void run();
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace qrl::report
