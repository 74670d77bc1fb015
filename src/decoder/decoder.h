#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "decoder/kv/kv_scales.h"
#include "decoder/options.h"
#include "decoder/request.h"
#include "model/device_weights.h"
#include "model/snapshot.h"
#include "types/prompt.h"

namespace qrl::decoder {

class Backend;

/// Samples from one model with continuous batching. Only one thread may call. A request's results depend on no other
/// requests; on a GPU this requires row_only_sums.
class Decoder final : public types::TextSource {
 public:
  /// Throws an input error for options out of range, and for a device that this machine or this build lacks.
  Decoder(const model::ModelConfig& config, const DecoderOptions& options);
  /// Uses this backend, which must be made for the same config and options.
  Decoder(const model::ModelConfig& config, const DecoderOptions& options, std::unique_ptr<Backend> backend);
  ~Decoder() override;

  /// Sets the snapshot, which is read in place and must live until the next load. Throws an internal error for another
  /// model, an unpublished snapshot, or an unfinished request.
  void load(const model::Snapshot& snapshot);

  /// Calibrates the scales of fp8 keys and values for the snapshot's current version. Call it after every publish, with
  /// equal sequences on every rank. Does nothing for other KV formats.
  void calibrate_kv(std::span<const std::vector<types::TokenId>> sequences, const KvCalibration& options);

  /// Sets scales that were calibrated for the weights of `scales.version`. Throws an internal error for KV formats
  /// without scales.
  void set_kv_scales(KvScales scales);
  const KvScales& kv_scales() const;  ///< `version` is −1 before any scales are set

  /// Queues a request. May be called at any time. Throws an input error for parameters out of range, an empty prompt,
  /// tokens outside the vocabulary, and a request that cannot fit max_model_len or the page pool. Throws an internal
  /// error before `load`, and for stop strings if the options lack bytes_of.
  RequestId submit(Request request);

  /// Runs a tick; while a GPU computes it, plans the next one. Returns false if all requests have finished.
  ///
  /// Throws an internal error if the snapshot's version changed between two ticks while a request was unfinished. Does
  /// the same for fp8 scales that are missing or of another version, and for logits that cannot be sampled. Any error
  /// abandons all requests that take_finished has not returned.
  bool tick();

  /// Returns requests finished since the last call, in the order in which they finished.
  std::vector<FinishedRequest> take_finished();

  /// Submits the requests with these parameters and key, and ticks until all have finished. Throws like `submit`
  /// (before any sampling) and like `tick`.
  std::vector<types::Completion> complete(std::span<const types::SampleRequest> requests,
                                          const types::SamplingParams& params, types::SampleKey key) override;

  /// Calls `partner` between ticks. While samples wait for replies, others are decoded. Any error abandons all
  /// requests. Throws like `complete`.
  std::vector<types::Completion> converse(std::span<const types::SampleRequest> requests,
                                          const types::SamplingParams& params, types::SampleKey key,
                                          types::TurnPartner& partner) override;

  /// Frees the KV memory until the next tick. Throws an internal error for an unfinished request.
  void release_kv();

  /// Returns the weights in GPU memory, into which Snapshot::DeviceWriter publishes. Null on the CPU.
  model::DeviceWeights* device_weights();

  bool reads(const model::Snapshot& snapshot) const;

  /// Throws an internal error before `load`.
  const model::Snapshot& snapshot() const;

  const DecoderStats& stats() const;
  void reset_stats();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qrl::decoder
