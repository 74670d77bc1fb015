#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "base/error.h"
#include "base/log.h"
#include "base/threads.h"
#include "command.h"
#include "learner/libraries.h"

namespace {

/// Says what failed. In a job of several ranks the first rank speaks first when all fail alike; the job ends whole.
int fail(const char* message, int exit_code, const qrl::dist::Collectives* world) {
  if (world != nullptr && world->size() > 1) {
    if (!world->is_first()) usleep(300'000);
    qrl::base::log_error("error (rank " + std::to_string(world->rank()) + "): " + message);
    qrl::dist::abort_job(exit_code);
  }
  qrl::base::log_error(std::string("error: ") + message);
  return exit_code;
}

int fail_memory(const qrl::dist::Collectives* world) {
  const std::string& asked = qrl::app::asked_of_memory();
  const qrl::base::Error error(qrl::base::making_parts() ? qrl::base::ErrorKind::input : qrl::base::ErrorKind::internal,
                               "memory",
                               asked.empty() ? "enough for what was asked" : "enough for the model and " + asked,
                               "none left", asked.empty() ? "ask for less" : "lower the largest of these");
  return fail(error.what(), error.exit_code(), world);
}

/// Verdicts, ids or a recipe that a full disk cut short are no success.
int finish_output(const qrl::dist::Collectives* world) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  return fail(
      "standard output: expected to write all of it, got an error; see whether the disk is full or the reader is gone",
      1, world);
}

/// A file that is opened later must not become standard output because that was closed at the start.
void open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) == -1) (void)open("/dev/null", O_RDONLY);  // to write there fails, as it should
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace qrl;
  open_standard_streams();
  base::shorten_spins(argv);
  CLI::App app("Trains language models with reinforcement learning while generating with quantized weights.",
               "qrl-train");
  app::Action action;
  app.set_version_flag("--version", app::version_text);
  app::add_train(app, action);
  app::add_eval(app, action);
  app::add_generate(app, action);
  app::add_dump(app, action);
  app::add_export(app, action);
  app::add_profile(app, action);
  app::add_data(app, action);
  app::add_bench(app, action);
  app::add_check(app, action);
  app::add_judge(app, action);
  app::add_tokenize(app, action);

  std::unique_ptr<dist::Collectives> world;
  try {
    learner::require_libtorch();
    app::check_commands(app, std::vector<std::string>(argv + 1, argv + argc));
    app.parse(argc, argv);
    world = dist::make_world(&argc, &argv);
    action(*world);
    return finish_output(world.get());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error) == 0 ? finish_output(nullptr) : 2;
    return fail(app::explain_arguments(app, error, std::vector<std::string>(argv + 1, argv + argc)).c_str(), 2,
                nullptr);
  } catch (const base::Error& error) {
    return fail(error.what(), error.exit_code(), world.get());
  } catch (const std::bad_alloc&) {
    return fail_memory(world.get());
  } catch (const std::exception& error) {
    if (const auto of_gpu = learner::gpu_memory_error(error.what()))
      return fail(of_gpu->what(), of_gpu->exit_code(), world.get());
    const bool no_memory = std::strstr(error.what(), "can't allocate memory") != nullptr;  // LibTorch's own words
    return no_memory ? fail_memory(world.get()) : fail(error.what(), 1, world.get());
  }
}
