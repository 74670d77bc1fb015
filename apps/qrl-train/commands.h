// Owns the list of qrl-train's commands.
#pragma once

#include "command.h"
#include "program.h"

namespace qrl::app {

void add_train(CLI::App& app, Action& action);  ///< `train` and `sft`
void add_eval(CLI::App& app, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_dump(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_import(CLI::App& app, Action& action);
void add_profile(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_check_reward(CLI::App& check, Action& action);
void add_check_env(CLI::App& check, Action& action);
void add_check_gap(CLI::App& check, Action& action);
void add_judge(CLI::App& app, Action& action);
void add_tokenize(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_port(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_watch(CLI::App& app, Action& action);

}  // namespace qrl::app
