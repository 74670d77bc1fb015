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
  std::int64_t graph_ticks = 0;
  std::int64_t held_graphs = 0;  ///< CUDA graphs that exist
  std::int64_t graph_bytes = 0;  ///< their GPU memory
  double waited_s = 0;           ///< time the caller waited for the device
};

/// Runs ticks. A tick is one forward pass over the rows of a plan. Only one thread may call.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// `snapshot` must live until the next load.
  virtual void load(const model::Snapshot& snapshot) = 0;
  /// Throws like KvCache::set_scales.
  virtual void set_kv_scales(KvScales scales) = 0;
  /// Sets fp8 scales calibrated for the current weights (teacher_forcing.h). A GPU first rounds keys and values to
  /// bf16, and ignores tokens that do not fit into one tick.
  virtual void calibrate_kv(std::span<const std::vector<types::TokenId>> sequences, const KvCalibration& options) = 0;
  virtual const KvScales& kv_scales() const = 0;  ///< `version` is −1 before any scales are set

  /// Prepares for ticks after an idle time: allocates KV memory, uploads weights that changed, and drops a tick that an
  /// error left in flight. Snapshot and scales must not change until all requests have finished. Returns the number of
  /// KV pages, which on a GPU may be less than kv_pages.
  virtual std::int64_t begin() = 0;
  /// Returns how many ticks may be in flight when another starts: 0 or 1. With 1, a plan may contain pending_token
  /// placeholders. Callers must assume 0 while any request needs_host_logits.
  virtual int num_ticks_ahead() const { return 0; }
  /// Returns whether tokens are sampled on the CPU from logits that a device sends, so that ticks must not overlap.
  virtual bool needs_host_logits(const ops::SampleParams& /*params*/) const { return false; }
  /// Starts a tick: copies pages, stores keys and values, and samples a token for each of plan.sample_rows. The plan
  /// may change afterwards. `samples` has one element per sample row, and must stay valid until `finish`.
  virtual void start(const Plan& plan, std::span<ops::SampledToken> samples) = 0;
  /// Waits until the oldest tick in flight has written its samples. Throws an internal error for logits that cannot be
  /// sampled.
  virtual void finish() = 0;

  /// Frees the KV memory until the next begin.
  virtual void release_kv() = 0;

  /// Returns the routes of a sequence's first num_tokens positions. The sequence must still hold `pages`. Empty for a
  /// dense model.
  virtual types::Routes routes(std::span<const PageId> /*pages*/, std::int64_t /*num_tokens*/) const { return {}; }
  /// Returns the number of experts read in all ticks, counted like DecoderStats::decode_experts.
  virtual std::int64_t num_experts_read() const { return 0; }
  virtual DeviceStats device_stats() const { return {}; }
  /// Returns null if weights are in host memory.
  virtual model::DeviceWeights* device_weights() { return nullptr; }
};

/// Makes a backend that runs on base::num_threads() CPU threads. The caller must have checked `options`.
std::unique_ptr<Backend> make_cpu_backend(const model::ModelConfig& config, const DecoderOptions& options);

}  // namespace qrl::decoder
