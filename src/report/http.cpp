#include "report/http.h"

#include <algorithm>
#include <charconv>

#include "base/ascii.h"

namespace qrl::report {

namespace {

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Decodes a URL's %NN and "+"; keeps an invalid %NN.
std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() && std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2) {
      out += static_cast<char>(code);
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

void read_query(std::string_view query, Request& request) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    const std::size_t equals = std::min(pair.find('='), pair.size());
    request.parameters.try_emplace(decoded(pair.substr(0, equals)),
                                   decoded(pair.substr(std::min(equals + 1, pair.size()))));
    query.remove_prefix(std::min(end + 1, query.size()));
  }
}

bool read_first_line(std::string_view line, Request& request) {
  const std::size_t first = line.find(' '), second = line.rfind(' ');
  if (first == std::string_view::npos || first == second || first == 0) return false;
  const std::string_view target = line.substr(first + 1, second - first - 1), version = line.substr(second + 1);
  if (!version.starts_with("HTTP/1.") || !target.starts_with('/') || target.find(' ') != std::string_view::npos)
    return false;
  request.method = line.substr(0, first);
  const std::size_t query = std::min(target.find('?'), target.size());
  request.path = target.substr(0, query);
  read_query(target.substr(std::min(query + 1, target.size())), request);
  return true;
}

const char* reason_of(int status) {
  constexpr std::pair<int, const char*> kReasons[] = {
      {200, "OK"},        {400, "Bad Request"},        {401, "Unauthorized"}, {403, "Forbidden"},
      {404, "Not Found"}, {405, "Method Not Allowed"}, {408, "Timeout"},      {431, "Head Too Large"}};
  const auto* found = std::ranges::find_if(kReasons, [&](const auto& one) { return one.first == status; });
  return found != std::end(kReasons) ? found->second : "Error";
}

}  // namespace

std::size_t head_end(std::string_view received) {
  const std::size_t end = received.find("\r\n\r\n");
  return end == std::string_view::npos ? end : end + 4;
}

int read_head(std::string_view head, Request& request) {
  std::size_t num_lines = 0;
  bool has_host = false;
  for (;;) {
    const std::size_t end = head.find("\r\n");
    if (end == std::string_view::npos) return 400;
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    if (line.empty()) return num_lines > 0 ? 0 : 400;
    if (++num_lines > kMaxHeadLines) return 431;
    if (num_lines == 1) {
      if (!read_first_line(line, request)) return 400;
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return 400;
    if (base::lower_case(line.substr(0, colon)) != "host") continue;
    if (has_host) return 400;
    has_host = true;
    request.host = base::lower_case(without_blanks(line.substr(colon + 1)));
  }
}

std::string written(const Response& response, bool with_body) {
  std::string text = "HTTP/1.1 " + std::to_string(response.status) + " " + reason_of(response.status) +
                     "\r\nContent-Type: " + response.type +
                     "\r\nContent-Length: " + std::to_string(response.body.size()) +
                     "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
                     "Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n";
  if (with_body) text += response.body;
  return text;
}

}  // namespace qrl::report
