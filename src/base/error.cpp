#include "base/error.h"

#include <atomic>
#include <utility>

namespace qrl::base {

namespace {

std::atomic<bool> are_parts_being_made = false;

std::string join(const std::string& where, const std::string& expected, const std::string& got,
                 const std::string& what_to_do) {
  std::string line = where;
  if (!expected.empty()) line += ": expected " + expected;
  if (!got.empty()) line += (expected.empty() ? ": " : ", got ") + got;
  if (!what_to_do.empty()) line += "; " + what_to_do;
  // Names and values in a message may come from untrusted files: no control bytes reach the terminal. Newlines stay
  // (a list of faults); whoever puts untrusted text into a message quotes it (base::quoted).
  for (char& c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n') || byte == 0x7f) c = '?';
  }
  return line;
}

}  // namespace

Error::Error(ErrorKind kind, std::string where, std::string expected, std::string got, std::string what_to_do)
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

void fail_input(std::string where, std::string expected, std::string got, std::string what_to_do) {
  throw Error(ErrorKind::input, std::move(where), std::move(expected), std::move(got), std::move(what_to_do));
}

void fail_internal(std::string where, std::string expected, std::string got, std::string what_to_do) {
  throw Error(ErrorKind::internal, std::move(where), std::move(expected), std::move(got), std::move(what_to_do));
}

}  // namespace qrl::base
