#include "decoder/decoder.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/threads.h"
#include "decoder/backend.h"
#include "decoder/checks.h"
#include "decoder/cpu_backend.h"
#include "decoder/device_backend.h"
#include "decoder/page_pool.h"
#include "decoder/plan.h"
#include "decoder/scheduler.h"

namespace qrl::decoder {

namespace {

/// Memory for sampled tokens taken at once, so that ticks up to this length allocate nothing.
constexpr std::int32_t kReservedTokens = 1024;

/// One completion a sample, with memory for its tokens.
std::vector<types::Completion> empty_completions(std::span<const types::SampleRequest> requests,
                                                 std::int32_t max_new_tokens) {
  std::size_t num_samples = 0;
  for (const types::SampleRequest& request : requests) num_samples += static_cast<std::size_t>(request.num_samples);
  std::vector<types::Completion> completions(num_samples);
  const auto reserved = static_cast<std::size_t>(std::min(max_new_tokens, kReservedTokens));
  for (types::Completion& completion : completions) {
    completion.tokens.reserve(reserved);
    completion.sampler_logprobs.reserve(reserved);
    completion.versions.reserve(reserved);
  }
  return completions;
}

}  // namespace

/// A tick that the backend was given.
struct StartedTick {
  explicit StartedTick(const model::ModelConfig& config) : plan(config) {}
  Plan plan;
  std::vector<ops::Draw> draws;  // of the plan's sample_rows
  std::int64_t num_graphs = 0;   // 1: launched as a CUDA graph
};

struct Decoder::State {
  State(const model::ModelConfig& model_config, const DecoderOptions& decoder_options)
      : config(model_config), options(decoder_options), ticks{StartedTick(model_config), StartedTick(model_config)} {}

  StartedTick& oldest() { return ticks[static_cast<std::size_t>((num_started - num_under_way) % 2)]; }
  void start(std::span<Sequence* const> chosen, const SamplingKey& key);
  void finish_oldest(const types::SamplingParams& params, std::int64_t version);
  std::int64_t give_to_sequences(const StartedTick& tick, const types::SamplingParams& params, std::int64_t version);
  void count_tick(const StartedTick& tick, std::int64_t num_dropped);

  model::ModelConfig config;
  DecoderOptions options;
  DecoderStats stats;
  std::array<StartedTick, 2> ticks;  // take turns
  std::int64_t num_started = 0;      // in all
  int num_under_way = 0;             // of those, not finished
  std::vector<Sequence*> finished;   // by the tick finished last
  double counted_s = 0;              // until when time was counted to a tick,
  double counted_waited_s = 0;       // and how much of it had been waited for a device
  std::unique_ptr<Backend> backend;
  const model::Snapshot* snapshot = nullptr;
};

Decoder::Decoder(const model::ModelConfig& config, const DecoderOptions& options) {
  check_options(options, config);
  state_ = std::make_unique<State>(config, options);
  state_->backend = options.device == base::Device::cuda
                        ? make_device_backend(config, options, cuda::make_engine(engine_options(config, options)))
                        : make_cpu_backend(config, options);
}

Decoder::Decoder(const model::ModelConfig& config, const DecoderOptions& options, std::unique_ptr<Backend> backend) {
  check_options(options, config);
  state_ = std::make_unique<State>(config, options);
  state_->backend = std::move(backend);
}

Decoder::~Decoder() = default;

void Decoder::load(const model::Snapshot& snapshot) {
  State& state = *state_;
  QRL_INVARIANT(snapshot.config() == state.config, "decoder", "a snapshot of the model it was made for",
                "another model");
  QRL_INVARIANT(snapshot.version() >= 0, "decoder", "a published snapshot", "one without weights");
  state.backend->load(snapshot);
  state.snapshot = &snapshot;
}

void Decoder::calibrate_kv(std::span<const std::vector<types::TokenId>> sequences, const KvCalibration& options) {
  State& state = *state_;
  if (state.options.kv_format != quant::KvFormat::fp8_e4m3) return;
  state.backend->calibrate_kv(sequences, options);
}

void Decoder::set_kv_scales(KvScales scales) { state_->backend->set_kv_scales(std::move(scales)); }
const KvScales& Decoder::kv_scales() const { return state_->backend->kv_scales(); }

std::vector<types::Completion> Decoder::complete(std::span<const types::SampleRequest> requests,
                                                 const types::SamplingParams& params, types::SampleKey key) {
  State& state = *state_;
  const model::Snapshot& snapshot = this->snapshot();
  check_params(params);
  for (const types::SampleRequest& request : requests)
    check_request(request, params.max_new_tokens, state.options, state.config);
  std::vector<types::Completion> completions = empty_completions(requests, params.max_new_tokens);
  const std::int64_t version = snapshot.version();
  const std::int64_t scales_version = state.backend->kv_scales().version;
  QRL_INVARIANT(state.options.kv_format != quant::KvFormat::fp8_e4m3 || scales_version == version, "decoder",
                "fp8 scales calibrated for version " + std::to_string(version),
                "version " + std::to_string(scales_version), "calibrate after every publish");
  const SamplingKey sampling_key{{params.temperature, params.top_p, params.top_k},
                                 base::RandomField(key.seed, base::RandomPurpose::sampling),
                                 key.step};
  PagePool pool(state.backend->begin(sampling_key.params));
  Scheduler scheduler(state.options, pool, state.stats);
  scheduler.submit(requests, completions, params.max_new_tokens);
  const int num_ahead = state.backend->num_ticks_ahead(sampling_key.params);
  state.num_under_way = 0;
  state.counted_s = base::now_s();
  state.counted_waited_s = state.backend->device_stats().waited_s;
  // A tick is chosen, planned and given to a device while that has the one before.
  while (!scheduler.done() || state.num_under_way > 0) {
    if (state.options.before_tick) state.options.before_tick();
    const std::span<Sequence* const> chosen = scheduler.choose();
    if (!chosen.empty()) {
      state.start(chosen, sampling_key);
      scheduler.advance();
    }
    if (!chosen.empty() && state.num_under_way <= num_ahead) continue;
    state.finish_oldest(params, version);
    scheduler.retire(state.finished);
  }
  return completions;
}

void Decoder::release_kv() { state_->backend->release_kv(); }

model::DeviceWeights* Decoder::device_weights() { return state_->backend->device_weights(); }

bool Decoder::reads(const model::Snapshot& snapshot) const { return state_->snapshot == &snapshot; }

const model::Snapshot& Decoder::snapshot() const {
  QRL_INVARIANT(state_->snapshot != nullptr, "decoder", "weights (load)", "none");
  return *state_->snapshot;
}

const DecoderStats& Decoder::stats() const { return state_->stats; }

void Decoder::reset_stats() { state_->stats = {}; }

void Decoder::State::start(std::span<Sequence* const> chosen, const SamplingKey& key) {
  StartedTick& tick = ticks[static_cast<std::size_t>(num_started % 2)];
  tick.plan.build(chosen, base::num_threads(), snapshot->num_bytes() <= kCachedWeightBytes);
  tick.draws.resize(tick.plan.sample_rows.size());
  const std::int64_t num_graphs_before = backend->device_stats().graph_ticks;
  backend->start(tick.plan, key, tick.draws);
  tick.num_graphs = backend->device_stats().graph_ticks - num_graphs_before;
  ++num_started;
  ++num_under_way;
}

void Decoder::State::finish_oldest(const types::SamplingParams& params, std::int64_t version) {
  QRL_INVARIANT(num_under_way > 0, "scheduler", "a row at least when no tick is under way", "none");
  const StartedTick& tick = oldest();
  backend->finish();
  --num_under_way;
  QRL_INVARIANT(snapshot->version() == version, "decoder", "weights of version " + std::to_string(version),
                "version " + std::to_string(snapshot->version()), "publish between calls, never during one");
  const std::int64_t num_dropped = give_to_sequences(tick, params, version);
  count_tick(tick, num_dropped);
}

/// Tokens sampled behind a sequence's end, before that was known, are dropped; how many.
std::int64_t Decoder::State::give_to_sequences(const StartedTick& tick, const types::SamplingParams& params,
                                               std::int64_t version) {
  std::int64_t num_dropped = 0;
  finished.clear();
  for (std::size_t i = 0; i < tick.draws.size(); ++i) {
    Sequence& sequence = *tick.plan.sampled_sequences[i];
    const ops::Draw& draw = tick.draws[i];
    --sequence.num_in_flight;
    if (sequence.finished) {
      ++num_dropped;
      continue;
    }
    types::Completion& completion = *sequence.completion;
    completion.tokens.push_back(draw.token);
    completion.sampler_logprobs.push_back(draw.logprob);
    completion.versions.push_back(version);
    const bool ended = std::ranges::find(params.stop_tokens, draw.token) != params.stop_tokens.end();
    sequence.finished = ended || completion.tokens.size() == static_cast<std::size_t>(params.max_new_tokens);
    completion.stop = ended ? types::StopReason::eos : types::StopReason::length;
    if (sequence.finished) finished.push_back(&sequence);
  }
  return num_dropped;
}

/// Time since the last tick was counted is this one's.
void Decoder::State::count_tick(const StartedTick& tick, std::int64_t num_dropped) {
  const double now_s = base::now_s(), tick_s = now_s - std::exchange(counted_s, now_s);
  const double waited_s = backend->device_stats().waited_s;
  const double tick_waited_s = waited_s - std::exchange(counted_waited_s, waited_s);
  const std::int64_t num_prefill_rows = tick.plan.num_rows() - tick.plan.num_decode_rows;
  const std::int64_t num_decode_tokens = tick.plan.num_decode_rows - num_dropped;
  ++stats.ticks;
  stats.prefill_tokens += num_prefill_rows;
  stats.decode_tokens += num_decode_tokens;
  (num_prefill_rows == 0 ? stats.decode_s : stats.prefill_s) += tick_s;
  if (num_prefill_rows > 0) return;
  stats.decode_only_tokens += num_decode_tokens;
  ++stats.decode_ticks;
  stats.decode_graph_ticks += tick.num_graphs;
  stats.decode_waited_s += tick_waited_s;
}

}  // namespace qrl::decoder
