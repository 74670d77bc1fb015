// Owns the live page's server.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace qrl::report {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 6007;  ///< 0: any free port
  bool asks_token = true;
};

class Server {
 public:
  /// Starts listening. Throws an input error if the address is unavailable, or if other machines could reach it without
  /// a token.
  Server(const std::vector<std::filesystem::path>& roots, const ServerOptions& options);
  ~Server();

  /// Returns the page's URL, including the token.
  std::string url() const;
  void run();
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace qrl::report
