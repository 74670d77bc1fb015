#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "decoder/kv/kv_scales.h"
#include "decoder/options.h"
#include "decoder/plan.h"
#include "model/device_weights.h"
#include "model/snapshot.h"
#include "ops/sample.h"

namespace qrl::decoder {

struct DeviceStats {
  std::int64_t graph_ticks = 0;  ///< launched as CUDA graphs
  double waited_s = 0;           ///< spent in `finish`
};

/// Computes planned ticks; one thread calls it.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// Sets the weights of a checked model. `snapshot` must outlive this object, or the next load.
  virtual void load(const model::Snapshot& snapshot) = 0;
  /// Throws an internal error for formats other than fp8, or a wrong number of scales.
  virtual void set_kv_scales(KvScales scales) = 0;
  /// Calibrates the scales (teacher_forcing.h) for the current weights. A device first rounds keys and values to bf16,
  /// and uses the rows of one tick.
  virtual void calibrate_kv(std::span<const std::vector<types::TokenId>> sequences, const KvCalibration& options) = 0;
  virtual const KvScales& kv_scales() const = 0;  ///< version −1: none

  /// Prepares for ticks after an idle time: allocates KV memory, makes the snapshot's weights current, and drops a tick
  /// left in flight by an error. Snapshot and scales must not change until the last tick. Returns the number of pages:
  /// kv_pages, or on a GPU possibly fewer.
  virtual std::int64_t begin() = 0;
  /// Returns how many ticks may be in flight when another starts: 0 or 1. With 1, a plan may have tokens that are
  /// pending_token. Callers use 0 while any request has top-k or top-p.
  virtual int num_ticks_ahead() const { return 0; }
  /// Starts a tick: copies pages, stores keys and values, and samples plan.sample_rows. The plan may change afterwards.
  /// `samples` has one element per sample row, and must stay valid until `finish`.
  virtual void start(const Plan& plan, std::span<ops::SampledToken> samples) = 0;
  /// Waits for the oldest tick in flight and its samples. Throws an internal error if a row of logits cannot be
  /// sampled.
  virtual void finish() = 0;

  /// Frees the KV memory until the next begin.
  virtual void release_kv() = 0;

  /// Returns the routes of a sequence's first positions, whose pages it still holds; no entries from a dense model.
  virtual types::Routes routes(std::span<const PageId> /*pages*/, std::int64_t /*num_tokens*/) const { return {}; }
  /// Returns how many experts ticks have read. A layer's rows of one team read an expert once.
  virtual std::int64_t num_experts_read() const { return 0; }
  virtual DeviceStats device_stats() const { return {}; }  ///< zeros without a device
  /// null if weights are read in host memory
  virtual model::DeviceWeights* device_weights() { return nullptr; }
};

/// Makes the backend of the CPU, on all threads of the process. `options` must be checked (decoder.cpp).
std::unique_ptr<Backend> make_cpu_backend(const model::ModelConfig& config, const DecoderOptions& options);

}  // namespace qrl::decoder
