// Owns what an engine's parts (ticks, weights, sequences) share: device memory, the stream, work in flight.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cuda/engine/blocks.h"
#include "cuda/engine/graph_cache.h"
#include "cuda/engine/kv_memory.h"
#include "cuda/engine/lm_head.h"
#include "cuda/engine/sequence_scorer.h"
#include "cuda/engine/tick_memory.h"
#include "cuda/engine/weight_store.h"
#include "cuda/engine/weights.h"
#include "cuda/gemm/gemms.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

struct EngineState {
  EngineState(const EngineOptions& options, const DeviceFacts& device);

  /// Checks a tick against this engine's limits. num_sampled_before: number of the previous tick's samples, to which
  /// pending_token() refers.
  void check(const Tick& tick, std::int64_t num_pages, std::int64_t num_sampled_before = 0) const;
  /// Throws an internal error unless `at` points into the device's memory.
  void require_on_device(const void* at, const char* where) const;
  void wait();
  /// Waits for the engine's work and for the stream of any other caller, because all use the same GEMM workspaces. Then
  /// calls work(stream) with the caller's stream.
  template <class Work>
  void run_on_callers_stream(CallersStream callers, const Work& work) {
    enter_device(device);
    if (in_flight) wait();
    if (callers_stream && callers_stream->handle != callers.handle) synchronize_callers_stream();
    callers_stream = callers;
    work(Stream(callers.handle));
  }
  void synchronize_callers_stream();
  /// Waits for the engine's work, then drops all graphs.
  void forget_graphs();
  /// Waits for all work in flight. Afterwards `logits` cannot read the last tick's rows.
  void drain();

  EngineOptions options;
  DeviceFacts device;
  Stream stream;
  std::unique_ptr<Gemms> gemms;
  Weights weights;
  KvMemory kv;
  TickMemory tick;
  Blocks blocks;
  LmHead head;
  GraphCache graphs;
  std::int64_t num_rows = 0;  ///< number of rows of the last tick
  bool in_flight = false;
  std::optional<CallersStream> callers_stream;  ///< last caller's stream; its work may still be running
  EngineStats stats;
};

/// Hold the recipe key and the advice of out-of-memory errors that occur outside ticks.
inline constexpr const char *kUtilization = "rollout.gpu_memory_utilization",
                            *kLowerIt = "lower it, or stop other programs that use the device";

std::string range_text(std::int64_t count);
std::string rows_text(std::span<const std::int32_t> rows);

class DeviceWeightStore final : public WeightStore {
 public:
  explicit DeviceWeightStore(EngineState& engine) : engine_(engine) {}
  void upload(const HostWeights& weights) override;
  std::int64_t rewrite(std::span<const Master> masters) override;
  std::int64_t rewrite_adapters(std::span<const AdapterMaster> masters) override;
  void dequantize(std::span<const DequantizedMatrix> wanted, CallersStream stream) override;
  Table table(std::string_view name) const override { return engine_.weights.table(name); }
  MatmulRoom matmul_room(const WeightId& matrix, std::int64_t num_rows) const override;
  void matmul(const float* x, const MatmulInput& input, void* y, CallersStream stream) override;
  void dequantize(const MatmulInput& input, void* to, bool to_f32, CallersStream stream) override;

 private:
  EngineState& engine_;
};

class DeviceSequenceScorer final : public SequenceScorer {
 public:
  explicit DeviceSequenceScorer(EngineState& engine) : engine_(engine) {}
  void forward(std::span<const Tick> ticks, std::int64_t num_pages, std::span<float* const> after_layer,
               CallersStream stream) override;
  void score(const float* x, const Targets& targets, std::span<TokenScore> scores, CallersStream stream) override;
  void kv_percentiles(const Tick& tick, std::int64_t num_above, std::span<float> keys_LK,
                      std::span<float> values_LK) override;

 private:
  EngineState& engine_;
  std::deque<TickMemory> forward_ticks_;  // one for each tick of the last `forward`, which uploads all of them first
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
