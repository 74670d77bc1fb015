#include "ops/bench/kernels/bench_loops.h"

#include "ops/kernels/amx/tile_chain.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

constinit const BenchLoops kBenchLoops = {.int8 = run_tile_chain<Int8Tiles>, .read = nullptr};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
