// Owns generation: sequences, KV pages, scheduling, the forward pass over a published snapshot, sampling. Knows nothing
// of text, rewards or learning; no LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "decoder/kv_calibration.h"
#include "decoder/request.h"
#include "model/device_weights.h"
#include "model/snapshot.h"
#include "quant/kv_format.h"
#include "types/prompt.h"

namespace qrl::decoder {

struct DecoderOptions {
  base::Device device = base::Device::cpu;     ///< cuda: the GPU's backend (decoder/device_backend.h)
  int device_number = 0;                       ///< of the visible GPUs, round-robin (cuda/engine/decode_engine.h)
  std::int64_t max_num_seqs = 256;             ///< sequences in flight
  std::int64_t max_num_batched_tokens = 2048;  ///< rows of one tick; longer prompts are prefilled in chunks
  std::int64_t page_size = 16;                 ///< tokens per KV page
  std::int64_t kv_pages = 0;                   ///< pages in the pool; must hold at least one longest sequence
  /// On a GPU: 0: kv_pages or an error; else as many of them as fit into this share of its memory, beside all else.
  double gpu_memory_utilization = 0;
  bool enforce_eager = false;      ///< on a GPU: no CUDA graphs; changes no sample
  bool row_only_sums = false;      ///< on a GPU: as cuda/engine/decode_engine.h's; the CPU's are
  std::int64_t max_model_len = 0;  ///< prompt + response tokens of the longest sequence
  quant::KvFormat kv_format = quant::KvFormat::bf16;
  /// Tokens of the vocabulary whose logits exist at once (for 32 rows), a multiple of 256, unless top-k or top-p look
  /// at whole rows; changes no sample. The default stays in a core's cache.
  std::int64_t logit_tile_tokens = 8192;
  bool prefix_sharing = true;         ///< a group's samples share their prompt's pages
  std::function<void()> before_tick;  ///< may throw: all requests are abandoned, the decoder as good as before
  /// The text of a token, for requests with stop strings; the bytes stay valid until the next call.
  std::function<std::string_view(types::TokenId)> bytes_of;
  int num_threads = 0;  ///< of each tick on the CPU; 0: the caller's (base/thread_scope.h). Changes no sample
};

/// Totals since the decoder was made or reset.
struct DecoderStats {
  std::int64_t ticks = 0;
  std::int64_t prefill_tokens = 0;      ///< rows computed of prompts, and of sampled tokens after a preemption
  std::int64_t decode_tokens = 0;       ///< rows computed of newest sampled tokens, without those after an end token
  std::int64_t decode_only_tokens = 0;  ///< of those, in ticks without prefill: ÷ decode_s is the decode speed
  std::int64_t samples_finished = 0;
  std::int64_t preemptions = 0;
  std::int64_t shared_prompt_tokens = 0;  ///< rows that sharing a group's prompt saved
  std::int64_t peak_kv_pages = 0;
  double prefill_s = 0;  ///< ticks with any prefill row
  double decode_s = 0;   ///< ticks of decode rows alone
  std::int64_t decode_ticks = 0;
  std::int64_t decode_graph_ticks = 0;  ///< of those, launched as CUDA graphs
  double decode_waited_s = 0;           ///< of decode_s, that this thread waited for a device
};

class Backend;

/// Continuous-batching sampler over one model. One thread calls it.
///
/// It is fed while it runs: `submit` takes a request at any time, `tick` computes one tick for all of them,
/// `take_finished` gives those that have ended. A request's tokens and log-probs have the same bits whatever is
/// submitted beside it and whenever it is; on a GPU with row_only_sums.
class Decoder final : public types::TextSource {
 public:
  /// Throws an input error for an option out of range, or a device that this machine or program does not have.
  Decoder(const model::ModelConfig& config, const DecoderOptions& options);
  /// The same with a backend made for the same config and options (decoder/backend.h), which computes the ticks.
  Decoder(const model::ModelConfig& config, const DecoderOptions& options, std::unique_ptr<Backend> backend);
  ~Decoder() override;

  /// Reads weights from `snapshot` in place (it must live until the next load), at whatever version it holds at the
  /// first tick after an idle time: publishing into it while no request is unfinished needs no new load. Throws an
  /// internal error when it holds another model, or nothing yet, or when a request is unfinished.
  void load(const model::Snapshot& snapshot);

  /// Calibrates fp8 keys and values for the version that the snapshot holds now: after every publish, before the next
  /// tick, on sequences that are the same on every rank (decoder/kv_calibration.h). Nothing for other formats.
  void calibrate_kv(std::span<const std::vector<types::TokenId>> sequences, const KvCalibration& options);

  /// Takes scales that were made before instead, of `scales.version`; an internal error for other formats.
  void set_kv_scales(KvScales scales);
  /// The scales in use; without any of version −1.
  const KvScales& kv_scales() const;

  /// Queues a request behind those that were submitted before, and names it. Throws an input error when a parameter is
  /// out of range or the request can never fit max_model_len or the page pool; an internal error before `load`, and for
  /// stop strings without DecoderOptions::bytes_of.
  RequestId submit(Request request);

  /// Computes one tick, on a GPU maybe while the next is already planned. Returns false, with nothing done, when every
  /// request has finished. Throws an internal error when the snapshot's version changed since the first tick after an
  /// idle time, when fp8 scales are missing or of another version, or when the weights give logits that nothing can be
  /// sampled from. An error, also of before_tick, abandons all requests that were not taken.
  bool tick();

  /// Requests that have finished, in the order of their end, each once.
  std::vector<FinishedRequest> take_finished();

  /// Submits the requests, with the same parameters and key for all, and ticks until every request has finished.
  /// Errors are those of `submit`, before anything is sampled, and of `tick`.
  std::vector<types::Completion> complete(std::span<const types::SampleRequest> requests,
                                          const types::SamplingParams& params, types::SampleKey key) override;

  /// Frees the KV memory while the learner works; the next tick allocates it again. An internal error while a request
  /// is unfinished.
  void release_kv();

  /// Its weights as they lie on a GPU, which may be published into (model/snapshot.h, DeviceWriter); null on the CPU.
  model::DeviceWeights* device_weights();

  /// Whether `load` gave this snapshot: a publish into it needs no other load.
  bool reads(const model::Snapshot& snapshot) const;

  /// What `load` gave.
  const model::Snapshot& snapshot() const;

  const DecoderStats& stats() const;
  void reset_stats();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qrl::decoder
