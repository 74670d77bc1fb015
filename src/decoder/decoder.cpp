#include "decoder/decoder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/threads.h"
#include "decoder/backend.h"
#include "decoder/cpu_backend.h"
#include "decoder/device_backend.h"
#include "decoder/page_pool.h"
#include "decoder/plan.h"
#include "decoder/scheduler.h"
#include "ops/sample.h"

namespace qrl::decoder {

namespace {

/// Memory for drawn tokens taken at once, so that ticks up to this length allocate nothing.
constexpr std::int32_t kReservedTokens = 1024;

void check(const DecoderOptions& options, const model::ModelConfig& config) {
  const auto at_least_one = [](std::string_view name, std::int64_t value) {
    QRL_REQUIRE(value >= 1, "decoder options: " + std::string(name), "1 or more", std::to_string(value));
  };
  at_least_one("max_num_seqs", options.max_num_seqs);
  at_least_one("max_num_batched_tokens", options.max_num_batched_tokens);
  at_least_one("page_size", options.page_size);
  at_least_one("kv_pages", options.kv_pages);
  at_least_one("max_model_len", options.max_model_len);
  QRL_INVARIANT(options.logit_tile_tokens > 0 && options.logit_tile_tokens % ops::kDrawBlock == 0, "decoder options",
                "logit_tile_tokens a multiple of " + std::to_string(ops::kDrawBlock),
                std::to_string(options.logit_tile_tokens));
  QRL_REQUIRE(options.max_model_len <= config.max_position_embeddings, "decoder options: max_model_len",
              "at most the model's max_position_embeddings = " + std::to_string(config.max_position_embeddings),
              std::to_string(options.max_model_len), "shorten prompts or responses");
}

void check(const types::SamplingParams& params) {
  QRL_REQUIRE(params.max_new_tokens >= 1, "sampling: max_new_tokens", "1 or more",
              std::to_string(params.max_new_tokens));
  QRL_REQUIRE(params.temperature >= 0 && std::isfinite(params.temperature), "sampling: temperature", "0 or more",
              std::to_string(params.temperature));
  QRL_REQUIRE(params.top_p > 0 && params.top_p <= 1, "sampling: top_p", "above 0, at most 1",
              std::to_string(params.top_p));
  QRL_REQUIRE(params.top_k == -1 || params.top_k >= 1, "sampling: top_k", "-1 (off), or 1 or more",
              std::to_string(params.top_k));
}

void check(const types::SampleRequest& request, std::int32_t max_new_tokens, const DecoderOptions& options,
           const model::ModelConfig& config) {
  const auto where = [&] { return "prompt " + std::to_string(request.prompt_id); };
  QRL_REQUIRE(request.num_samples >= 1 && request.first_sample >= 0, where(), "one sample or more, counted from 0",
              std::to_string(request.num_samples) + " from " + std::to_string(request.first_sample));
  QRL_REQUIRE(!request.prompt_tokens.empty(), where(), "one token or more", "none");
  for (const types::TokenId token : request.prompt_tokens) {
    QRL_REQUIRE(token >= 0 && token < config.vocab_size, where(),
                "tokens below the model's vocab_size = " + std::to_string(config.vocab_size), std::to_string(token),
                "check that tokenizer and model belong together");
  }
  const auto prompt_tokens = static_cast<std::int64_t>(request.prompt_tokens.size());
  const auto got = [&] {
    return std::to_string(prompt_tokens) + " prompt + " + std::to_string(max_new_tokens) + " new tokens";
  };
  QRL_REQUIRE(prompt_tokens + max_new_tokens <= options.max_model_len, where(),
              "at most max_model_len = " + std::to_string(options.max_model_len) + " tokens", got(),
              "shorten the prompt, or lower max_new_tokens");
  // The last token drawn is never an input.
  QRL_REQUIRE(prompt_tokens + max_new_tokens - 1 <= options.kv_pages * options.page_size, where(),
              "at most the KV pool's " + std::to_string(options.kv_pages) + " pages of " +
                  std::to_string(options.page_size) + " tokens",
              got(), "raise kv_pages, or lower max_new_tokens");
}

}  // namespace

struct Decoder::State {
  State(const model::ModelConfig& model_config, const DecoderOptions& decoder_options)
      : config(model_config), options(decoder_options), plan(model_config) {}

  void give_to_sequences(const types::SamplingParams& params, std::int64_t version);
  void count_tick(double tick_s, const DeviceStats& before);

  model::ModelConfig config;
  DecoderOptions options;
  DecoderStats stats;
  Plan plan;
  std::vector<ops::Draw> draws;  // of the plan's draw_rows
  std::unique_ptr<Backend> backend;
  const model::Snapshot* snapshot = nullptr;
};

Decoder::Decoder(const model::ModelConfig& config, const DecoderOptions& options) {
  check(options, config);
  state_ = std::make_unique<State>(config, options);
  state_->backend = options.device == base::Device::cuda
                        ? make_device_backend(config, options, cuda::make_engine(engine_options(config, options)))
                        : make_cpu_backend(config, options);
}

Decoder::Decoder(const model::ModelConfig& config, const DecoderOptions& options, std::unique_ptr<Backend> backend) {
  check(options, config);
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
  check(params);
  std::size_t num_samples = 0;
  for (const types::SampleRequest& request : requests) {
    check(request, params.max_new_tokens, state.options, state.config);
    num_samples += static_cast<std::size_t>(request.num_samples);
  }
  std::vector<types::Completion> completions(num_samples);
  for (types::Completion& completion : completions) {
    const auto reserved = static_cast<std::size_t>(std::min(params.max_new_tokens, kReservedTokens));
    completion.tokens.reserve(reserved);
    completion.sampler_logprobs.reserve(reserved);
    completion.versions.reserve(reserved);
  }
  const std::int64_t version = snapshot.version();
  const std::int64_t scales_version = state.backend->kv_scales().version;
  QRL_INVARIANT(state.options.kv_format != quant::KvFormat::fp8_e4m3 || scales_version == version, "decoder",
                "fp8 scales calibrated for version " + std::to_string(version),
                "version " + std::to_string(scales_version), "calibrate after every publish");
  const DrawKey draw_key{{params.temperature, params.top_p, params.top_k},
                         base::RandomField(key.seed, base::RandomPurpose::sampling),
                         key.step};
  PagePool pool(state.backend->begin(draw_key.params));
  Scheduler scheduler(state.options, pool, state.stats);
  scheduler.submit(requests, completions);
  while (!scheduler.done()) {
    if (state.options.before_tick) state.options.before_tick();
    const double start_s = base::now_s();
    const std::span<Sequence* const> chosen = scheduler.choose();
    const DeviceStats before = state.backend->device_stats();
    state.plan.build(chosen, base::num_threads(), snapshot.num_bytes() <= kCachedWeightBytes);
    state.draws.resize(state.plan.draw_rows.size());
    state.backend->run(state.plan, draw_key, state.draws);
    QRL_INVARIANT(snapshot.version() == version, "decoder", "weights of version " + std::to_string(version),
                  "version " + std::to_string(snapshot.version()), "publish between calls, never during one");
    state.give_to_sequences(params, version);
    scheduler.retire();
    state.count_tick(base::now_s() - start_s, before);
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

void Decoder::State::give_to_sequences(const types::SamplingParams& params, std::int64_t version) {
  for (std::size_t i = 0; i < draws.size(); ++i) {
    Sequence& sequence = *plan.draw_sequences[i];
    types::Completion& completion = *sequence.completion;
    completion.tokens.push_back(draws[i].token);
    completion.sampler_logprobs.push_back(draws[i].logprob);
    completion.versions.push_back(version);
    const bool ended = std::ranges::find(params.stop_tokens, draws[i].token) != params.stop_tokens.end();
    sequence.finished = ended || completion.tokens.size() == static_cast<std::size_t>(params.max_new_tokens);
    completion.stop = ended ? types::StopReason::eos : types::StopReason::length;
  }
}

void Decoder::State::count_tick(double tick_s, const DeviceStats& before) {
  const std::int64_t num_prefill_rows = plan.num_rows() - plan.num_decode_rows;
  ++stats.ticks;
  stats.prefill_tokens += num_prefill_rows;
  stats.decode_tokens += plan.num_decode_rows;
  (num_prefill_rows == 0 ? stats.decode_s : stats.prefill_s) += tick_s;
  if (num_prefill_rows > 0) return;
  const DeviceStats after = backend->device_stats();
  stats.decode_only_tokens += plan.num_decode_rows;
  ++stats.decode_ticks;
  stats.decode_graph_ticks += after.graph_ticks - before.graph_ticks;
  stats.decode_waited_s += after.waited_s - before.waited_s;
}

}  // namespace qrl::decoder
