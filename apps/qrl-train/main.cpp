#include <cstdio>
#include <cstring>

#include "program.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "bench") == 0) {
    std::fputs("error: qrl-train has no benchmarks; run scripts/bench, which builds and runs qrl-bench\n", stderr);
    return 2;
  }
  return qrl::app::run_program({.name = "qrl-train",
                                .what = "Trains language models with RL on samples drawn with quantized weights.",
                                .add_commands = qrl::app::add_commands},
                               argc, argv);
}
