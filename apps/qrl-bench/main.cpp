#include "program.h"

int main(int argc, char** argv) {
  return qrl::app::run_program(
      {.name = "qrl-bench",
       .what =
           "Measures qrl-train's decoder, learner, steps, tokenizer and GPU kernels against the machine's ceilings.",
       .add_commands = qrl::app::add_benchmarks},
      argc, argv);
}
