// Owns the door to a snapshot's weights in a device's memory, where a decoder reads them: masters that lie there, too,
// become codes without a way through the host. Knows neither learner nor decoder.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/view.h"

namespace qrl::model {

class Snapshot;

/// A tensor of the model as training keeps it, and how the snapshot has it encoded.
struct DeviceMaster {
  std::string weight;  ///< its spec's name
  base::View values;   ///< fp32 in the device's memory, whole and written
  // In CPU memory, of an int8 profile; null: none.
  const float* factors = nullptr;     ///< of a matrix's inputs (ops/linear.h, FixedScales); of a norm: its divisors
  const float* row_scales = nullptr;  ///< FixedScales'
};

/// One of the snapshot's matrices, or its embedding, as numbers.
struct DecodedTensor {
  std::string tensor;  ///< its name in Snapshot::tensors
  base::View to;       ///< fp32, or bf16 rounded from it, [out, in], in the device's memory
};

class DeviceWeights {
 public:
  DeviceWeights() = default;
  DeviceWeights(const DeviceWeights&) = delete;
  DeviceWeights& operator=(const DeviceWeights&) = delete;
  virtual ~DeviceWeights() = default;

  /// Whether it has held weights of this snapshot, of any version: only then can it rewrite them.
  virtual bool holds(const Snapshot& snapshot) const = 0;
  /// Rewrites these weights in the snapshot's formats: the bits that it would have had from them. Blocks until it is
  /// done. The name of one that is not finite, or nothing.
  virtual std::string rewrite(std::span<const DeviceMaster> masters) = 0;
  /// Writes tensors out as the codes that are there stand for. Blocks until it is done.
  virtual void decode(std::span<const DecodedTensor> wanted) = 0;
  /// All weights are those of `version` now.
  virtual void finish(std::int64_t version) = 0;
};

}  // namespace qrl::model
