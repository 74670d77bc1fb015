#include "cuda/engine/device_engine.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "cuda/attention/kv.h"
#include "cuda/engine/engine_state.h"
#include "cuda/runtime/out_of_memory.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

using quant::KvFormat;

constexpr std::int64_t kMaxHeadDim = 256;
constexpr const char* kKey = "rollout.device: cuda";

void check(const EngineOptions& options, const DeviceFacts& device) {
  const model::ModelConfig& config = options.model;
  QRL_REQUIRE(options.kv_format != KvFormat::f32, "rollout.device: cuda", "a KV cache of bf16, int8 or fp8_e4m3",
              "fp32", "set quant.rollout.kv_cache");
  QRL_REQUIRE(config.head_dim <= kMaxHeadDim, "rollout.device: cuda",
              "a head_dim of at most " + std::to_string(kMaxHeadDim), std::to_string(config.head_dim));
  // Kernels need shared memory for the widest fp32 row or for the sums of sampling's blocks, plus 1 KiB.
  const std::int64_t widest = std::max({config.hidden_size, config.intermediate_size, config.q_size()});
  const std::int64_t num_blocks = ceil_div(config.vocab_size, kSampleBlock);
  const std::int64_t shared_bytes = std::max(widest * 4, num_blocks * 16 + 2 * kSampleBlock * 4) + 1024;
  QRL_REQUIRE(shared_bytes <= static_cast<std::int64_t>(device.shared_bytes), "rollout.device: cuda",
              "rows that fit the " + std::to_string(device.shared_bytes) + " bytes of shared memory of " + device.name,
              std::to_string(shared_bytes));
}

class DeviceEngine final : public DecodeEngine {
 public:
  DeviceEngine(const EngineOptions& options, const DeviceFacts& device)
      : state_(options, device), weights_(state_), sequences_(state_) {}

  std::string describe() const override;
  WeightStore& weights() override { return weights_; }
  SequenceScorer& sequences() override { return sequences_; }
  void set_kv_scales(std::span<const float> keys_LK, std::span<const float> values_LK) override {
    state_.kv.set_scales(keys_LK, values_LK, state_.stream);
  }
  std::int64_t allocate_kv() override {
    if (state_.in_flight) state_.wait();
    num_finished_ = num_started_;
    return state_.kv.allocate();
  }
  void release_kv() override;
  void start(const Tick& tick, const SampleRows& samples) override;
  void finish(std::span<SampledToken> sampled) override;
  void logits(std::span<const std::int32_t> rows, std::span<float> logits_RV) override;
  std::int64_t max_logit_rows() const override { return kWholeRows; }
  const EngineStats& stats() const override { return state_.stats; }

 private:
  struct Turn {
    std::int64_t num_samples = 0;
    std::int64_t num_rows_sampled = 0;  // includes padding rows
    bool cuts = false;
    Event done;
  };

  void check_rows(std::span<const std::int32_t> rows) const;
  void run_all(const TickArrays& arrays);
  void launch_graph(const TickArrays& arrays);

  EngineState state_;
  DeviceWeightStore weights_;
  DeviceSequenceScorer sequences_;
  Turn turns_[2];
  std::int64_t num_started_ = 0, num_finished_ = 0;  // tick i uses turns_[i % 2]
};

std::string DeviceEngine::describe() const {
  return state_.device.name + ", device " + std::to_string(state_.device.number) + " of " +
         std::to_string(state_.device.count) + " (sm_" + std::to_string(state_.device.major) +
         std::to_string(state_.device.minor) + ", " + std::to_string(state_.device.total_bytes >> 30) +
         " GiB); GEMMs: " + state_.gemms->describe();
}

void DeviceEngine::release_kv() {
  state_.forget_graphs();  // graphs contain the memory's addresses
  state_.kv.release();
}

void DeviceEngine::start(const Tick& tick, const SampleRows& samples) {
  QRL_INVARIANT(state_.weights.uploaded() && state_.kv.has_pages(), "tick", "weights and KV memory", "none");
  QRL_INVARIANT(state_.kv.has_scales(), "tick", "calibrated KV scales", "none");
  QRL_INVARIANT(num_started_ - num_finished_ < 2, "tick", "at most one running tick",
                std::to_string(num_started_ - num_finished_));
  const bool follows = state_.num_rows > 0;  // whether the previous tick's samples exist
  state_.check(tick, state_.kv.num_pages(), follows ? turns_[(num_started_ + 1) % 2].num_samples : 0);
  state_.num_rows = static_cast<std::int64_t>(tick.tokens_N.size());
  check_rows(samples.rows);
  QRL_INVARIANT(samples.rows.size() == samples.uniforms.size() && samples.rows.size() == samples.temperatures.size() &&
                    std::ranges::all_of(samples.temperatures, [](float temperature) { return temperature >= 0; }),
                "sample", "a uniform number and a temperature of 0 or more per row",
                std::to_string(samples.uniforms.size()) + " and " + std::to_string(samples.temperatures.size()));
  QRL_INVARIANT(samples.cuts.empty() || samples.cuts.size() == samples.rows.size(), "sample",
                "cuts of each row, or none", std::to_string(samples.cuts.size()));
  state_.synchronize_callers_stream();
  Turn& turn = turns_[num_started_ % 2];
  turn.done.wait();  // `finish` does not wait for a tick without samples
  state_.in_flight = true;
  const TickArrays arrays = state_.tick.send(tick, samples, state_.stream);
  if (arrays.shape.cuts) {
    with_memory({kUtilization, "the candidates of top-k and top-p", kLowerIt},
                [&] { state_.head.reserve_cuts(state_.tick.max_rows()); });
  }
  if (!tick.copies.empty()) {
    for (std::size_t i = 0; i < state_.weights.num_layers(); ++i)
      copy_slots({arrays.copies, state_.kv.pages(i)}, static_cast<std::int64_t>(tick.copies.size()), state_.stream);
  }
  if (state_.options.graphs && samples.rows.size() == tick.tokens_N.size()) {
    launch_graph(arrays);
  } else {
    run_all(arrays);
    state_.head.sample(state_.blocks.rows(), arrays, state_.stream);
  }
  turn.num_samples = static_cast<std::int64_t>(samples.rows.size());
  turn.num_rows_sampled = arrays.shape.samples;
  turn.cuts = arrays.shape.cuts;
  const auto turn_idx = static_cast<std::size_t>(num_started_ % 2);
  state_.head.send_sampled(turn.num_rows_sampled, turn_idx, state_.stream);
  if (turn.cuts) state_.head.send_kept(turn.num_rows_sampled, turn_idx, state_.stream);
  turn.done.record(state_.stream);
  ++num_started_;
}

void DeviceEngine::finish(std::span<SampledToken> sampled) {
  QRL_INVARIANT(num_finished_ < num_started_, "tick", "a tick that was started and is not finished",
                std::to_string(num_started_) + " started, " + std::to_string(num_finished_) + " finished");
  const auto turn_idx = static_cast<std::size_t>(num_finished_ % 2);
  const Turn& turn = turns_[turn_idx];
  QRL_INVARIANT(turn.num_samples == static_cast<std::int64_t>(sampled.size()), "sample",
                "room for " + std::to_string(turn.num_samples), std::to_string(sampled.size()));
  ++num_finished_;
  if (sampled.empty()) return;
  const double start_s = base::now_s();
  turn.done.wait();
  state_.stats.waited_s += base::now_s() - start_s;
  if (num_finished_ == num_started_) state_.in_flight = false;
  state_.head.read(turn.num_rows_sampled, turn_idx, sampled);
  if (turn.cuts) state_.head.read_kept(turn.num_rows_sampled, turn_idx, sampled);
}

void DeviceEngine::run_all(const TickArrays& arrays) {
  state_.blocks.embed(arrays, state_.head.sampled_tokens(), state_.stream);
  for (std::size_t i = 0; i < state_.weights.num_layers(); ++i) {
    state_.blocks.store(i, arrays, state_.kv.pages(i), state_.stream);
    state_.blocks.attend(i, arrays, state_.kv.pages(i), state_.stream);
  }
}

/// Launches a shape's first tick kernel by kernel, later ticks as a graph.
void DeviceEngine::launch_graph(const TickArrays& arrays) {
  const auto launch = [&] {
    run_all(arrays);
    state_.head.sample(state_.blocks.rows(), arrays, state_.stream);
  };
  if (!state_.graphs.was_seen(arrays.shape)) return launch();
  if (state_.graphs.launch(arrays.shape, num_started_, num_finished_, state_.stream, launch)) {
    state_.gemms->set_recorded(true);
    ++state_.stats.num_graphs;
    state_.stats.held_graphs = state_.graphs.num_graphs();
    state_.stats.graph_bytes = state_.graphs.num_bytes();
  }
  ++state_.stats.graph_ticks;
}

void DeviceEngine::check_rows(std::span<const std::int32_t> rows) const {
  QRL_INVARIANT(std::ranges::all_of(rows, [&](std::int64_t row) { return 0 <= row && row < state_.num_rows; }) &&
                    std::ranges::adjacent_find(rows, std::greater_equal<>()) == rows.end(),
                "sample", "rows in " + range_text(state_.num_rows) + ", ascending", rows_text(rows));
}

void DeviceEngine::logits(std::span<const std::int32_t> rows, std::span<float> logits_RV) {
  const std::int64_t vocab_size = state_.options.model.vocab_size;
  QRL_INVARIANT(static_cast<std::int64_t>(rows.size()) <= kWholeRows &&
                    static_cast<std::int64_t>(logits_RV.size()) == static_cast<std::int64_t>(rows.size()) * vocab_size,
                "logits", "at most " + std::to_string(kWholeRows) + " rows and room for them",
                std::to_string(rows.size()));
  check_rows(rows);
  if (rows.empty()) return;
  state_.synchronize_callers_stream();
  with_memory({kUtilization, "whole rows of logits", kLowerIt},
              [&] { state_.head.logits(state_.blocks.rows(), rows, logits_RV, state_.stream); });
  state_.wait();
}

}  // namespace

std::unique_ptr<DecodeEngine> make_device_engine(const EngineOptions& options) {
  const DeviceFacts device = use_device(options.device_number);
  check(options, device);
  return with_memory(
      {kKey, "the rows of a tick", "lower rollout.max_num_batched_tokens, or stop other programs that use the device"},
      [&] { return std::make_unique<DeviceEngine>(options, device); });
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
