// Owns the project's one error type and the checks that raise it. Knows nothing of what failed.
#pragma once

#include <exception>
#include <string>

namespace qrl::base {

/// What an error means for the process; `exit_code` maps it (recipes.md).
enum class ErrorKind {
  input,     ///< recipe, arguments, file or data at fault: exit 2
  guard,     ///< a training guard stopped the run: exit 3
  stopped,   ///< a signal stopped the run after a checkpoint: exit 75
  internal,  ///< a broken invariant of ours or a failing machine: exit 1
};

/// One error: where (file:line, path, tensor, op), what was expected, what was found, what to do.
/// Every part but `where` may be empty. `what()` joins them; no control byte but a newline (a list of faults) is in it.
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

/// Throws an input error (exit 2).
[[noreturn]] void fail_input(const std::string& where, const std::string& expected, const std::string& got,
                             const std::string& what_to_do = {});

/// Throws an internal error (exit 1).
[[noreturn]] void fail_internal(const std::string& where, const std::string& expected, const std::string& got,
                                const std::string& what_to_do = {});

/// While a run's parts are made from its recipe, memory that runs out is the recipe's fault; once the work has begun it
/// is the machine's. Set by whoever reads a recipe and by whoever begins the work; asked by main.
void set_making_parts(bool making);
bool making_parts();

}  // namespace qrl::base

/// Input check, on in release; the texts are built only when it fails.
#define QRL_REQUIRE(condition, ...)         \
  do {                                      \
    if (!(condition)) [[unlikely]]          \
      ::qrl::base::fail_input(__VA_ARGS__); \
  } while (false)

/// Invariant check, on in release; the texts are built only when it fails.
#define QRL_INVARIANT(condition, ...)          \
  do {                                         \
    if (!(condition)) [[unlikely]]             \
      ::qrl::base::fail_internal(__VA_ARGS__); \
  } while (false)
