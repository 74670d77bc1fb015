// Builds qrl-train with emulated tiles: the path amx, on every AVX-512 machine.
#include "program.h"

#include "ops/emulation/kernel_paths.h"

int main(int argc, char** argv) {
  qrl::test::emulate_tiles();
  return qrl::app::run_program({.name = "qrl-train", .what = "", .add_commands = qrl::app::add_commands}, argc, argv);
}
