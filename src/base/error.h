#pragma once

#include <exception>
#include <string>

namespace qrl::base {

/// Classifies errors by their effect on the process and its exit code (docs/reference/commands.md).
enum class ErrorKind {
  input,     ///< a wrong recipe, argument, file or data: exit 2
  guard,     ///< a training guard stopped the run: exit 3
  stopped,   ///< a signal stopped the run after a checkpoint: exit 75
  internal,  ///< a bug in this program, or a failing machine: exit 1
};

/// Describes an error: where (file:line, path, tensor, op), expected, found, what to do. All but `where` may be empty.
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

/// Sets whether a failed allocation is an input error (while a run is built from its recipe) or an internal error
/// (otherwise).
void set_making_parts(bool making);
bool making_parts();

}  // namespace qrl::base

/// Throws an input error unless the condition holds, also in release builds. Evaluates the texts only on failure.
#define QRL_REQUIRE(condition, ...)         \
  do {                                      \
    if (!(condition)) [[unlikely]]          \
      ::qrl::base::fail_input(__VA_ARGS__); \
  } while (false)

/// Throws an internal error unless the condition holds, like QRL_REQUIRE.
#define QRL_INVARIANT(condition, ...)          \
  do {                                         \
    if (!(condition)) [[unlikely]]             \
      ::qrl::base::fail_internal(__VA_ARGS__); \
  } while (false)
