#include "program.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "base/shipped_files.h"
#include "base/text.h"
#include "command.h"
#include "learner/tensors/libraries.h"

namespace qrl::app {

namespace {

/// Logs the failure, aborts a job of several ranks, and returns the exit code. If `stopped`, the logged line neither
/// says "error" nor names the rank: the whole job stops.
int fail(const char* message, int exit_code, const dist::Collectives* world, bool stopped = false) {
  (void)std::fflush(stdout);  // the output precedes its error, and abort_job would drop it
  if (world != nullptr && world->size() > 1) {
    if (!world->is_first()) usleep(300'000);
    base::log_error((stopped ? "" : "error (rank " + std::to_string(world->rank()) + "): ") + message);
    dist::abort_job(exit_code);
  }
  base::log_error((stopped ? "" : "error: ") + std::string(message));
  return exit_code;
}

int fail_memory(const dist::Collectives* world) {
  const std::string& settings = memory_settings();
  const base::Error error(base::making_parts() ? base::ErrorKind::input : base::ErrorKind::internal, "memory",
                          settings.empty() ? "enough for the command" : "enough for the model and " + settings,
                          "no memory left",
                          settings.empty() ? "use a smaller input or model" : "lower the largest of these");
  return fail(error.what(), error.exit_code(), world);
}

/// Returns the error for a path that cannot be accessed. It is an input error for missing permissions, link loops and
/// long names, else an internal error.
base::Error path_error(const std::filesystem::filesystem_error& error) {
  const std::error_code& code = error.code();
  const bool is_input = code == std::errc::permission_denied || code == std::errc::too_many_symbolic_link_levels ||
                        code == std::errc::filename_too_long;
  return base::Error(is_input ? base::ErrorKind::input : base::ErrorKind::internal,
                     base::quoted(error.path1().string()), "a path that this user can access", code.message(),
                     is_input ? "use another path, or change its permissions" : "");
}

int finish_output(const dist::Collectives* world) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  return fail(
      "standard output: expected a complete write, got an error; check whether the disk is full or the reader has "
      "exited",
      1, world);
}

/// Opens /dev/null for closed standard streams, so that no other file gets their descriptors.
void open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) == -1) (void)open("/dev/null", O_RDONLY);  // read-only, so that writes fail
  }
}

/// Ends the process after an unhandled exception, without allocating.
[[noreturn]] void end_unhandled() {
  static constexpr char kMemory[] =
      "error: memory: expected enough for the program and its libraries, got no memory left; raise ulimit -v\n";
  bool no_memory = false;
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    no_memory = true;
  } catch (const std::exception& error) {
    const char* const parts[] = {"error: ", error.what(), "\n"};
    for (const char* part : parts) (void)!write(STDERR_FILENO, part, std::strlen(part));
  } catch (...) {
  }
  if (no_memory) (void)!write(STDERR_FILENO, kMemory, sizeof kMemory - 1);
  if (no_memory) _exit(1);
  std::abort();
}

void before_initializers(int argc, char** argv, char** environment) {
  base::shorten_spins(argc, argv, environment);
  std::set_terminate(end_unhandled);
  (void)std::signal(SIGXFSZ, SIG_IGN);  // makes a write beyond ulimit -f fail like on a full disk
}

/// Runs before LibTorch's initializers (see shorten_spins). Test programs do not link this file.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeInitializers)(int, char**,
                                                                                char**) = before_initializers;

}  // namespace

void set_work(CLI::App& command, Action& action, const Action& work, const std::function<void()>& prepare) {
  const std::string name = command.get_option_no_throw("--ranks") == nullptr ? full_name(command) : "";
  command.callback([&action, work, prepare, name] {
    if (prepare) prepare();
    action = [work, name](dist::Collectives& world) {
      QRL_REQUIRE(name.empty() || world.size() == 1, name, "one process", std::to_string(world.size()),
                  "run it without --ranks or mpirun");
      work(world);
    };
  });
}

int run_program(const Program& program, int argc, char** argv) {
  base::skip_library_destructors();
  base::restore_library_path();
  open_standard_streams();
  CLI::App command_line(program.what, program.name);
  Action action;
  program.add_commands(command_line, action);

  std::unique_ptr<dist::Collectives> world;
  std::vector<std::string> words = with_bare_options(std::vector<std::string>(argv + 1, argv + argc));
  try {
    if (words == std::vector<std::string>{"recipes:"}) {
      std::fputs(base::list_of_recipes().c_str(), stdout);
      return finish_output(nullptr);
    }
    learner::require_libtorch();
    words = with_shipped_recipes(std::move(words));
    check_commands(command_line, words);
    command_line.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 expects reverse order
    dist::start_ranks(num_local_ranks());
    world = dist::make_world(&argc, &argv);
    action(*world);
    return finish_output(world.get());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return command_line.exit(error) == 0 ? finish_output(nullptr) : 2;
    const base::Error ours = argument_error(command_line, error, words);
    return fail(ours.what(), ours.exit_code(), nullptr);
  } catch (const base::Error& error) {
    return fail(error.what(), error.exit_code(), world.get(), error.kind() == base::ErrorKind::stopped);
  } catch (const std::bad_alloc&) {
    return fail_memory(world.get());
  } catch (const std::filesystem::filesystem_error& error) {
    const base::Error ours = path_error(error);
    return fail(ours.what(), ours.exit_code(), world.get());
  } catch (const std::exception& error) {
    if (const auto of_gpu = learner::gpu_error(error.what()))
      return fail(of_gpu->what(), of_gpu->exit_code(), world.get());
    const bool no_memory = std::strstr(error.what(), "can't allocate memory") != nullptr;  // LibTorch's message
    return no_memory ? fail_memory(world.get()) : fail(error.what(), 1, world.get());
  }
}

}  // namespace qrl::app
