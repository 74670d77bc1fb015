// Owns the door between a tick's plan and whatever computes it. Knows nothing of scheduling, nor of what is behind the
// door.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "decoder/kv_calibration.h"
#include "decoder/plan.h"
#include "model/device_weights.h"
#include "model/snapshot.h"
#include "ops/sample.h"

namespace qrl::decoder {

/// Totals of a backend whose ticks a device computes.
struct DeviceStats {
  std::int64_t graph_ticks = 0;  ///< launched as a CUDA graph
  double waited_s = 0;           ///< in `finish`, for the device
};

/// Computes ticks: the forward pass over a snapshot, keys and values in pages, the samples. One thread calls it.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// Weights from now on; `snapshot` must outlive this or the next load. Its model was checked.
  virtual void load(const model::Snapshot& snapshot) = 0;
  /// Scales of fp8 keys and values; an internal error for other formats or another number of them.
  virtual void set_kv_scales(KvScales scales) = 0;
  /// Sets those that kv_calibration.h finds for what the snapshot holds now. A device rounds keys and values to bf16
  /// before it looks at them, and takes of the sequences what fits one tick.
  virtual void calibrate_kv(std::span<const std::vector<types::TokenId>> sequences, const KvCalibration& options) = 0;
  virtual const KvScales& kv_scales() const = 0;  ///< of version −1 without any

  /// Before the first tick after an idle time: KV memory is there after, and what the snapshot holds now is what ticks
  /// compute with; a tick that was left under way (by an error) is forgotten. The snapshot and the scales stand still
  /// until the last tick. Returns how many pages there are: options' kv_pages, on a GPU maybe fewer; enough for one
  /// longest sequence.
  virtual std::int64_t begin() = 0;
  /// How many ticks may be under way, started and not finished, when another is started: 0 or 1. With 1 a plan may have
  /// tokens that are sampled_before. 0 while any request has top-k or top-p (ops::SampleParams::cuts), whatever this
  /// returns.
  virtual int num_ticks_ahead() const { return 0; }
  /// Starts a tick: copies pages, stores the rows' keys and values, samples for plan.sample_rows, each row with its own
  /// request's parameters and key. Reads the plan before it returns. `samples` has their number, and stays until
  /// `finish`.
  virtual void start(const Plan& plan, std::span<ops::SampledToken> samples) = 0;
  /// Waits for the tick that was started first of those in flight: its samples are valid on return. Throws an internal
  /// error when a row's logits were such that nothing can be sampled.
  virtual void finish() = 0;

  /// Gives the KV memory back until the next begin.
  virtual void release_kv() = 0;

  virtual DeviceStats device_stats() const { return {}; }  ///< zeros where there is no device
  /// The weights as they lie on a device; null where they are read in host memory.
  virtual model::DeviceWeights* device_weights() { return nullptr; }
};

}  // namespace qrl::decoder
