// Owns the text of HTTP: a request's head read within limits, a response written. Knows nothing of connections.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace qrl::report {

/// Longest head of a request, and most lines in it.
inline constexpr std::size_t kMaxHead_bytes = std::size_t{16} << 10, kMaxHeadLines = 100;

struct Request {
  std::string method;
  std::string path;
  std::map<std::string, std::string> parameters;  ///< decoded; of a name given twice the first
  std::string host;                               ///< the Host header, in lower case; empty without one
};

struct Response {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

/// Returns where the head ends in what was received, behind its empty line; npos: not yet.
std::size_t head_end(std::string_view received);

/// Reads a head, with its empty line, into `request`. Returns 0, or the status of the refusal: 400 where it is no
/// request of HTTP/1 for a path, 431 where it has too many lines.
int read_head(std::string_view head, Request& request);

/// The response's bytes, after which the connection ends. `with_body` false: as HEAD wants it.
std::string written(const Response& response, bool with_body);

}  // namespace qrl::report
