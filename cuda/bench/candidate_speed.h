// Owns the device's part of speed.h's measure_bf16_candidates.
#pragma once

#include "cuda/bench/speed.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

Bf16Candidates measure_bf16_candidate_speed(const Bf16CandidateTask& task);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
