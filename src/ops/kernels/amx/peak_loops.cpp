#include "ops/kernels/peak_loops.h"

#include "ops/kernels/amx/tile_chain.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

constinit const PeakLoops kPeakLoops = {.bf16 = run_tile_chain<Bf16Tiles>, .f32 = nullptr};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
