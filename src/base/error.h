#pragma once

#include <exception>
#include <string>

namespace qrl::base {

/// Errors by their effect on the process; `exit_code` returns the code (recipes.md).
enum class ErrorKind {
  input,     ///< a wrong recipe, argument, file or data: exit 2
  guard,     ///< a training guard stopped the run: exit 3
  stopped,   ///< a signal stopped the run after a checkpoint: exit 75
  internal,  ///< a bug in this program, or a failing machine: exit 1
};

/// One error: where (file:line, path, tensor, op), expected, found, what to do. Only `where` is never empty. `what()`
/// joins them.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, const std::string& where, const std::string& expected, const std::string& got,
        const std::string& what_to_do = {});

  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const noexcept { return kind_; }
  int exit_code() const noexcept;

 private:
  ErrorKind kind_;
  std::string message_;
};

[[noreturn]] void fail_input(const std::string& where, const std::string& expected, const std::string& got,
                             const std::string& what_to_do = {});

[[noreturn]] void fail_internal(const std::string& where, const std::string& expected, const std::string& got,
                                const std::string& what_to_do = {});

/// Marks the phase that builds a run from its recipe. A failed allocation is an input error in this phase, later an
/// internal one.
void set_making_parts(bool making);
bool making_parts();

}  // namespace qrl::base

/// Checks input, also in release builds. Makes the texts only on failure.
#define QRL_REQUIRE(condition, ...)         \
  do {                                      \
    if (!(condition)) [[unlikely]]          \
      ::qrl::base::fail_input(__VA_ARGS__); \
  } while (false)

/// Checks an invariant likewise.
#define QRL_INVARIANT(condition, ...)          \
  do {                                         \
    if (!(condition)) [[unlikely]]             \
      ::qrl::base::fail_internal(__VA_ARGS__); \
  } while (false)
