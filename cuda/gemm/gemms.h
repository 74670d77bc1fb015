// Owns which kernel computes a GEMM. Knows nothing of layers.
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

  /// Computes a GemmTask with the fastest measured kernel of gemm_plan.h's gemm_choices (gemm_sweep.h). The order of
  /// sums is the kernel's own. Sums accumulate in int32 for int8, and in fp32 otherwise, with two exceptions:
  /// - fp8 on Hopper, for more than kStreamedFp8Rows rows: the tensor core adds 128 inputs before fp32 takes over. It
  ///   keeps some 13 fractional bits relative to their largest term.
  /// - int4 and fp8_block128, from dequantized_rows(format) rows: operands are rounded to bf16 first
  ///   (dequantized_gemms.h).
  virtual void multiply(const GemmTask& task, const Stream& stream) = 0;
  /// Allocates the memory for GEMMs with the matrix of num_rows rows, padded by padded_rows. Otherwise `multiply`
  /// allocates it, which is not allowed during a graph capture.
  virtual void reserve(const DeviceMatrix& w, std::int64_t num_rows) = 0;
  /// Sets whether recorded ticks contain addresses of the GEMMs' memory, which then must not move.
  virtual void set_recorded(bool is_recorded) = 0;
  virtual std::string describe() const = 0;  ///< formats and their kernels, for the log
};

/// Returns the rules for a device. CUTLASS's kernels are compiled for sm_90a alone, so newer devices use streamed
/// kernels and cuBLASLt.
inline GemmRules gemm_rules(const DeviceFacts& device, bool row_only_sums, bool block_scales = false) {
  return {runs_hopper_code(device), row_only_sums, block_scales};
}

/// Runs streamed_gemm with its own scratch memory.
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

/// Makes a device's GEMMs. row_only_sums: see choose_gemm. Throws an input error if a required library is missing.
std::unique_ptr<Gemms> make_gemms(const DeviceFacts& device, bool row_only_sums = false);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
