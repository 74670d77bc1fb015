#include "base/error.h"

#include <atomic>

#include "base/text.h"

namespace qrl::base {

namespace {

std::atomic<bool> are_parts_being_made = false;

std::string join(const std::string& where, const std::string& expected, const std::string& got,
                 const std::string& what_to_do) {
  std::string line;
  for (const char c : where) {  // a file's name may have line ends; a text without the other parts is a whole message
    if (c == '\n' && !(expected.empty() && got.empty())) line += "\\n";
    else line += c;
  }
  if (!expected.empty()) line += ": expected " + expected;
  if (!got.empty()) line += (expected.empty() ? ": " : ", got ") + got;
  if (!what_to_do.empty()) line += "; " + what_to_do;
  // Escapes terminal control bytes, because values are untrusted.
  return printable(line);
}

}  // namespace

Error::Error(ErrorKind kind, const std::string& where, const std::string& expected, const std::string& got,
             const std::string& what_to_do)
    : kind_(kind), message_(join(where, expected, got, what_to_do)) {}

int Error::exit_code() const noexcept {
  switch (kind_) {
    case ErrorKind::input:
      return 2;
    case ErrorKind::guard:
      return 3;
    case ErrorKind::stopped:
      return 75;
    case ErrorKind::internal:
      return 1;
  }
  return 1;
}

void set_making_parts(bool making) { are_parts_being_made = making; }
bool making_parts() { return are_parts_being_made; }

void fail_input(const std::string& where, const std::string& expected, const std::string& got,
                const std::string& what_to_do) {
  throw Error(ErrorKind::input, where, expected, got, what_to_do);
}

void fail_internal(const std::string& where, const std::string& expected, const std::string& got,
                   const std::string& what_to_do) {
  throw Error(ErrorKind::internal, where, expected, got, what_to_do);
}

}  // namespace qrl::base
