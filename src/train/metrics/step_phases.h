// Metric names: step_recorder.cpp.
#pragma once

#include <cstdint>
#include <map>

namespace qrl::train {

enum class Phase : std::uint8_t { generate, judge, old_logprobs, reference_logprobs, update, publish, probe, evaluate };

using PhaseSeconds = std::map<Phase, double>;

}  // namespace qrl::train
