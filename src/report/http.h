#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace qrl::report {

inline constexpr std::size_t kMaxHead_bytes = std::size_t{16} << 10, kMaxHeadLines = 100;

struct Request {
  std::string method;
  std::string path;
  std::map<std::string, std::string> parameters;  ///< decoded query; a repeated name keeps its first value
  std::string host;                               ///< Host header in lower case, or empty
};

struct Response {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

/// Returns the size of a complete request head with its empty line, else npos.
std::size_t head_end(std::string_view received);

/// Parses a head. Returns 0, 400 (not an HTTP/1 request with a path) or 431 (too many lines).
int read_head(std::string_view head, Request& request);

/// Returns the response's bytes, with the header Connection: close. `with_body`: false for HEAD.
std::string written(const Response& response, bool with_body);

}  // namespace qrl::report
