#pragma once

#include <functional>
#include <vector>

#include "tests/gpu_probes/probes.h"

namespace qrl::probes {

/// Returns the time of each algorithm that cuBLASLt proposes for an e4m3 GEMM, at most eight, its first choice first;
/// NaN: it does not run. `one` points to 1 in device memory. task.y has the last algorithm's result.
std::vector<double> guesses_us(const ProbeGemm& task, const float* one, void* workspace, std::size_t workspace_bytes,
                               const std::function<double(const std::function<void()>&)>& time_us);

}  // namespace qrl::probes
