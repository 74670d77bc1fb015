#include <cstdio>

#include "commands.h"
#include "report/server.h"

namespace qrl::app {

namespace {

struct WatchArguments {
  std::vector<std::string> runs;
  report::ServerOptions server;
};

void watch(const WatchArguments& arguments) {
  report::Server server({arguments.runs.begin(), arguments.runs.end()}, arguments.server);
  std::printf("%s\n", server.url().c_str());
  std::fflush(stdout);
  server.run();
}

}  // namespace

void add_watch(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<WatchArguments>();
  CLI::App* command = app.add_subcommand("watch", "serve a live report page of runs; until Ctrl-C");
  command->add_option("RUNS", arguments->runs, "run folders, or folders that contain them")
      ->required()
      ->check(not_empty());
  add_integer(*command, "--port", arguments->server.port, 0, 65535, "port to listen on; 0 selects a free one")
      ->capture_default_str();
  add_text(*command, "--host", arguments->server.host, "HOST",
           "address to listen on; an address that is not local is reachable from the network")
      ->capture_default_str();
  command->add_flag("!--no-token", arguments->server.asks_token,
                    "answer every process on this machine; by default a request needs the token in the printed URL");
  set_work(*command, action, arguments, watch);
}

}  // namespace qrl::app
