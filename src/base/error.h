// Owns the project's one error type and the checks that throw it.
#pragma once

#include <exception>
#include <string>

namespace qrl::base {

/// Classifies an error by its effect on the process; `exit_code` returns the code (recipes.md).
enum class ErrorKind {
  input,     ///< the recipe, the arguments, a file or the data are wrong: exit 2
  guard,     ///< a training guard stopped the run: exit 3
  stopped,   ///< a signal stopped the run after a checkpoint: exit 75
  internal,  ///< a bug in this program, or a failing machine: exit 1
};

/// Holds one error: where (file:line, path, tensor, op), what was expected, what was found, what to do. Every part but
/// `where` may be empty. `what()` joins them; newlines (a list of errors) are its only control bytes.
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

/// Marks the phase in which a run is built from its recipe: running out of memory is then an input error, later an
/// internal one. The reader of a recipe sets it, the start of the work resets it, and main reads it.
void set_making_parts(bool making);
bool making_parts();

}  // namespace qrl::base

/// Checks input, also in release builds. The texts are built only on failure.
#define QRL_REQUIRE(condition, ...)         \
  do {                                      \
    if (!(condition)) [[unlikely]]          \
      ::qrl::base::fail_input(__VA_ARGS__); \
  } while (false)

/// Checks an invariant, also in release builds. The texts are built only on failure.
#define QRL_INVARIANT(condition, ...)          \
  do {                                         \
    if (!(condition)) [[unlikely]]             \
      ::qrl::base::fail_internal(__VA_ARGS__); \
  } while (false)
