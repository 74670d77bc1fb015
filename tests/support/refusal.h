// Shares helpers of reader tests: the message of a refusal, and a search in it that both Catch2 2 and 3 can print.
#pragma once

#include <string>

#include "base/error.h"
#include "support/catch.h"

namespace qrl::test {

/// Returns the message of the input error that `read` throws, or "accepted". Other errors fail the test.
template <class Read>
std::string refusal_of(const Read& read) {
  try {
    read();
    return "accepted";
  } catch (const qrl::base::Error& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
}

inline bool says(const std::string& message, const std::string& part) {
  const bool found = message.find(part) != std::string::npos;
  if (!found) UNSCOPED_INFO("\"" << part << "\" is not in: " << message);
  return found;
}

}  // namespace qrl::test
