#pragma once

#include <memory>
#include <string>

#include "cuda/gemm/gemm_plan.h"
#include "cuda/runtime/operands.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

class Gemms {
 public:
  Gemms() = default;
  Gemms(const Gemms&) = delete;
  Gemms& operator=(const Gemms&) = delete;
  virtual ~Gemms() = default;

  /// Computes a GemmTask with the fastest measured kernel (gemm_sweep.h). Sums are int32 for int8. Otherwise they are
  /// fp32, in the kernel's order, with two exceptions:
  /// - fp8 on Hopper, for more than kStreamedFp8Rows rows: the tensor core adds 128 products with some 13 fractional
  ///   bits relative to the largest.
  /// - int4 and fp8_block128, for at least dequantized_rows(format) rows: operands are rounded to bf16
  /// (dequantized_gemms.h).
  virtual void multiply(const GemmTask& task, const Stream& stream) = 0;
  /// Allocates the memory that `multiply` needs for `w` and up to num_rows rows (a number from padded_rows). Without
  /// this call, `multiply` allocates, which a graph capture forbids.
  virtual void reserve(const DeviceMatrix& w, std::int64_t num_rows) = 0;
  /// Sets whether recorded graphs contain addresses of reserved memory. If they do, this memory must not move.
  virtual void set_recorded(bool is_recorded) = 0;
  virtual std::string describe() const = 0;
};

inline GemmRules gemm_rules(const DeviceFacts& device, bool row_only_sums, bool block_scales = false) {
  return {runs_hopper_code(device), row_only_sums, block_scales};
}

/// row_only_sums: as in choose_gemm. Throws an input error if cuBLASLt is missing.
std::unique_ptr<Gemms> make_gemms(const DeviceFacts& device, bool row_only_sums = false);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
