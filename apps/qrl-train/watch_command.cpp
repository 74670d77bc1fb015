// Serves the report's page live.
#include <cstdio>

#include "commands.h"
#include "report/server.h"

namespace qrl::app {

namespace {

struct WatchArguments {
  std::vector<std::string> runs;
  report::ServerOptions server;
};

void watch(const WatchArguments& arguments, dist::Collectives& world) {
  require_one_process(world, "qrl-train watch");
  report::Server server({arguments.runs.begin(), arguments.runs.end()}, arguments.server);
  std::printf("%s\n", server.url().c_str());
  std::fflush(stdout);
  server.run();
}

}  // namespace

void add_watch(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<WatchArguments>();
  CLI::App* command = app.add_subcommand("watch", "serve the report's page of runs at work; until Ctrl-C");
  command->add_option("RUNS", arguments->runs, "folders of runs, or run folders")->required()->check(not_empty());
  command->add_option("--port", arguments->server.port, "port; 0: any that is free")
      ->check(between(0, 65535))
      ->capture_default_str()
      ->type_name("INT");
  command
      ->add_option("--host", arguments->server.host,
                   "address to listen at; another than this machine's own is open to the network")
      ->check(not_empty())
      ->capture_default_str()
      ->type_name("HOST");
  command->add_flag(
      "!--no-token", arguments->server.asks_token,
      "answer every process of this machine; by default a request needs the token of the printed address");
  command->callback(
      [&action, arguments] { action = [arguments](dist::Collectives& world) { watch(*arguments, world); }; });
}

}  // namespace qrl::app
