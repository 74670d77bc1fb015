#include "decoder/decoder.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/thread_scope.h"
#include "decoder/backend.h"
#include "decoder/checks.h"
#include "decoder/cpu_backend.h"
#include "decoder/device_backend.h"
#include "decoder/tick_loop.h"

namespace qrl::decoder {

namespace {

std::unique_ptr<Backend> make_backend(const model::ModelConfig& config, const DecoderOptions& options) {
  check_options(options, config);
  if (options.device == base::Device::cpu) return make_cpu_backend(config, options);
  return make_device_backend(config, options, cuda::make_engine(engine_options(config, options)));
}

}  // namespace

struct Decoder::State {
  State(const model::ModelConfig& model_config, const DecoderOptions& decoder_options, std::unique_ptr<Backend> backend)
      : config(model_config), options(decoder_options), loop(config, options, std::move(backend)) {}

  void require_idle(const char* what) const {
    QRL_INVARIANT(loop.idle(), std::string("decoder: ") + what, "no unfinished request", "some",
                  "call tick until it returns false");
  }

  model::ModelConfig config;
  DecoderOptions options;
  TickLoop loop;
  const model::Snapshot* snapshot = nullptr;
  std::vector<FinishedRequest> finished_before;  // other callers' finished requests, kept by `complete`
};

Decoder::Decoder(const model::ModelConfig& config, const DecoderOptions& options)
    : Decoder(config, options, make_backend(config, options)) {}

Decoder::Decoder(const model::ModelConfig& config, const DecoderOptions& options, std::unique_ptr<Backend> backend) {
  check_options(options, config);
  state_ = std::make_unique<State>(config, options, std::move(backend));
}

Decoder::~Decoder() = default;

void Decoder::load(const model::Snapshot& snapshot) {
  State& state = *state_;
  QRL_INVARIANT(snapshot.config() == state.config, "decoder", "a snapshot of the model it was made for",
                "another model");
  QRL_INVARIANT(snapshot.version() >= 0, "decoder", "a published snapshot", "one without weights");
  state.require_idle("load");
  state.loop.backend().load(snapshot);
  state.snapshot = &snapshot;
}

void Decoder::calibrate_kv(std::span<const std::vector<types::TokenId>> sequences, const KvCalibration& options) {
  State& state = *state_;
  if (state.options.kv_format != quant::KvFormat::fp8_e4m3) return;
  state.require_idle("calibrate_kv");
  const base::ThreadsInScope threads(state.options.num_threads);
  state.loop.backend().calibrate_kv(sequences, options);
}

void Decoder::set_kv_scales(KvScales scales) {
  state_->require_idle("set_kv_scales");
  state_->loop.backend().set_kv_scales(std::move(scales));
}
const KvScales& Decoder::kv_scales() const { return state_->loop.backend().kv_scales(); }

RequestId Decoder::submit(Request request) {
  State& state = *state_;
  (void)snapshot();
  check_request(request, state.options, state.config);
  return state.loop.submit(std::move(request));
}

bool Decoder::tick() {
  State& state = *state_;
  const base::ThreadsInScope threads(state.options.num_threads);
  return state.loop.tick(snapshot());
}

std::vector<FinishedRequest> Decoder::take_finished() {
  std::vector<FinishedRequest> taken = std::exchange(state_->finished_before, {});
  std::ranges::move(state_->loop.take_finished(), std::back_inserter(taken));
  return taken;
}

std::vector<types::Completion> Decoder::complete(std::span<const types::SampleRequest> requests,
                                                 const types::SamplingParams& params, types::SampleKey key) {
  State& state = *state_;
  std::vector<Request> made;
  made.reserve(requests.size());
  for (const types::SampleRequest& request : requests) {
    const std::vector<types::TokenId> prompt(request.prompt_tokens.begin(), request.prompt_tokens.end());
    made.push_back({request.prompt_id, prompt, request.first_sample, request.num_samples, params, key});
    check_request(made.back(), state.options, state.config);
  }
  std::map<RequestId, std::vector<types::Completion>> of_request;
  for (Request& request : made) of_request[submit(std::move(request))];
  while (tick()) {
  }
  for (FinishedRequest& finished : state.loop.take_finished()) {
    const auto found = of_request.find(finished.id);
    if (found == of_request.end()) state.finished_before.push_back(std::move(finished));
    else found->second = std::move(finished.completions);
  }
  std::vector<types::Completion> completions;
  for (auto& [id, of_samples] : of_request) std::ranges::move(of_samples, std::back_inserter(completions));
  return completions;
}

void Decoder::release_kv() {
  state_->require_idle("release_kv");
  state_->loop.backend().release_kv();
}

model::DeviceWeights* Decoder::device_weights() { return state_->loop.backend().device_weights(); }

bool Decoder::reads(const model::Snapshot& snapshot) const { return state_->snapshot == &snapshot; }

const model::Snapshot& Decoder::snapshot() const {
  QRL_INVARIANT(state_->snapshot != nullptr, "decoder", "weights (load)", "none");
  return *state_->snapshot;
}

const DecoderStats& Decoder::stats() const { return state_->loop.stats(); }

void Decoder::reset_stats() { state_->loop.reset_stats(); }

}  // namespace qrl::decoder
