// Owns what the probes share: GEMMs to try, their operands, and the CPU's reference.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/format.h"

namespace qrl::probes {

inline constexpr int kProbeGroup = 128;  ///< inputs that share a scale of int4

/// Describes y [num_rows, outputs], bf16 = alpha · rows · Wᵀ. All arrays are dense and in device memory.
struct ProbeGemm {
  std::int64_t num_rows, outputs, inputs;
  const void* weights;  ///< [outputs, inputs]
  const void* scales;   ///< bf16 [inputs / kProbeGroup, outputs]; null: none
  const void* rows;     ///< [num_rows, inputs]
  float alpha;
  void* y;
};

struct ProbeKernel {
  const char* name;
  quant::Element weights, rows;
  bool has_scales;  ///< of weights' groups
  std::int64_t tile_rows;
  /// Returns false if CUTLASS refuses the shape.
  bool (*run)(const ProbeGemm& task, void* workspace, std::size_t workspace_bytes, cudaStream_t stream);
};

/// Return the kernels of tiles.cu and mixed.cu.
std::span<const ProbeKernel> tile_kernels();
std::span<const ProbeKernel> mixed_kernels();

}  // namespace qrl::probes
