#include "benchmarks.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace qrl::app {

void add_benchmarks(CLI::App& program, Action& action) {
  program.require_subcommand(1);
  program.option_defaults()->always_capture_default();
  add_bench_decode(program, action);
  add_bench_learner(program, action);
  add_bench_step(program, action);
  add_bench_tokenizer(program, action);
  add_bench_products(program, action);
  add_bench_attention(program, action);
  add_bench_ticks(program, action);
}

void print_result(const nlohmann::ordered_json& result, bool as_json) {
  if (as_json) {
    std::printf("%s\n", result.dump().c_str());
    return;
  }
  for (const auto& [name, value] : result.items()) std::printf("%-28s %s\n", name.c_str(), value.dump().c_str());
}

}  // namespace qrl::app
