#pragma once

#include <nlohmann/json_fwd.hpp>

#include "command.h"
#include "program.h"

namespace qrl::app {

void add_bench_decode(CLI::App& program, Action& action);
void add_bench_learner(CLI::App& program, Action& action);
void add_bench_step(CLI::App& program, Action& action);
void add_bench_tokenizer(CLI::App& program, Action& action);
void add_bench_products(CLI::App& program, Action& action);
void add_bench_attention(CLI::App& program, Action& action);
void add_bench_ticks(CLI::App& program, Action& action);

/// Prints one JSON object, or a name and value per line.
void print_result(const nlohmann::ordered_json& result, bool as_json);

}  // namespace qrl::app
