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
  CLI::App* command = app.add_subcommand("watch", "serve the report's page of runs at work; until Ctrl-C");
  command->add_option("RUNS", arguments->runs, "folders of runs, or run folders")->required()->check(not_empty());
  add_integer(*command, "--port", arguments->server.port, 0, 65535, "port; 0: any that is free")->capture_default_str();
  add_text(*command, "--host", arguments->server.host, "HOST",
           "address to listen at; another than this machine's own is open to the network")
      ->capture_default_str();
  command->add_flag(
      "!--no-token", arguments->server.asks_token,
      "answer every process of this machine; by default a request needs the token of the printed address");
  set_work(*command, action, arguments, watch);
}

}  // namespace qrl::app
