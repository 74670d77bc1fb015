// Owns which kernel does a GEMM. Knows nothing of layers.
#pragma once

#include <memory>
#include <string>

#include "cuda/gemm/gemm_plan.h"
#include "cuda/runtime/kernels.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

class Gemms {
 public:
  Gemms() = default;
  Gemms(const Gemms&) = delete;
  Gemms& operator=(const Gemms&) = delete;
  virtual ~Gemms() = default;

  /// Computes a GemmTask by one of the kernels that gemm_plan.h's gemm_choices names, whichever took
  /// the least time (gemm_sweep.h); sums may run in another order, and accumulate as a library does: int32; fp32; of
  /// fp8 on Hopper, where rows are more than kStreamedFp8Rows, the matrix unit's own,
  /// which keeps some 13 bits behind the point of its largest term for the 128 inputs that it adds up before fp32 takes
  /// over; of int4 and fp8_block128 of dequantized_rows(format) rows and more, of operands rounded to bf16
  /// (dequantized_gemms.h).
  virtual void multiply(const GemmTask& task, const Stream& stream) = 0;
  /// Makes the memory that GEMMs of num_rows rows (as padded_rows has them) with the matrix need. `multiply` makes
  /// it otherwise, which it must not while a graph is recorded.
  virtual void reserve(const DeviceMatrix& w, std::int64_t num_rows) = 0;
  /// Tells that recorded ticks name the memory that GEMMs use, which must not move then; false: none do.
  virtual void set_recorded(bool is_recorded) = 0;
  virtual std::string describe() const = 0;  ///< which format runs where, for the log
};

/// CUTLASS's kernels are compiled for sm_90a alone: what is newer than Hopper streams, and takes cuBLASLt.
inline GemmRules gemm_rules(const DeviceFacts& device, bool row_only_sums, bool block_scales = false) {
  return {runs_hopper_code(device), row_only_sums, block_scales};
}

/// What streamed_gemm needs besides its operands.
class StreamedGemms {
 public:
  StreamedGemms()
      : partials_(static_cast<std::size_t>(kStreamPartialBytes)),
        counters_(Memory::zeroed(static_cast<std::size_t>(kStreamCounters) * sizeof(std::uint32_t))) {}
  void multiply(const GemmTask& task, const StreamPlan& plan, const Stream& stream) const {
    streamed_gemm(task, plan, {partials_.as<std::uint32_t>(), counters_.as<std::uint32_t>()}, stream);
  }

 private:
  Memory partials_;
  Memory counters_;  // zero between two GEMMs
};

/// row_only_sums: choose_gemm's. Throws an input error when a library that it needs is not there.
std::unique_ptr<Gemms> make_gemms(const DeviceFacts& device, bool row_only_sums = false,
                                  const Trials& trials = trials_wanted());

}  // namespace qrl::cuda::QRL_CUDA_TARGET
