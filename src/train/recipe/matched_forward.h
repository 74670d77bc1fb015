// Owns what an experiment decided about learners that multiply in the sampler's low-bit format.
#pragma once

namespace qrl::train {

/// Says where `auto` may choose what docs/science/real-weights.md compares with a bf16 learner (automatic.h).
struct MatchedForward {
  bool on_cpu = false;   ///< low_bit, where sampler and learner are on the CPU
  bool on_gpu = false;   ///< low_bit or fake_quant, where one of the two is on a GPU
  bool bitwise = false;  ///< equal bits on top of low_bit, on the CPU
};

/// Returns what the experiment docs/science/plans/matched_forward.yaml decided.
MatchedForward decided_matched_forward();

}  // namespace qrl::train
