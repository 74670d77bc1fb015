#include "commands.h"

#include "help.h"

namespace qrl::app {

void add_commands(CLI::App& app, Action& action) {
  app.set_version_flag("--version", version_text, "print the versions of the program and its libraries, and exit")
      ->group(kRareOptions);
  add_train(app, action);
  add_eval(app, action);
  add_generate(app, action);
  add_dump(app, action);
  add_export(app, action);
  add_import(app, action);
  add_profile(app, action);
  add_data(app, action);
  add_check(app, action);
  add_judge(app, action);
  add_tokenize(app, action);
  add_compare(app, action);
  add_port(app, action);
  add_report(app, action);
  add_watch(app, action);
  for (const char* rare : {"dump", "data", "import", "profile", "tokenize"})
    app.get_subcommand(rare)->group(kRareCommands);
  add_help(app);
}

}  // namespace qrl::app
