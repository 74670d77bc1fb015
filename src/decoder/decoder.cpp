#include "decoder/decoder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/threads.h"
#include "decoder/backend.h"
#include "decoder/device/device_backend.h"
#include "decoder/tick_loop.h"
#include "ops/sample.h"
#include "types/turns.h"

namespace qrl::decoder {

namespace {

void check_options(const DecoderOptions& options, const model::ModelConfig& config) {
  const auto at_least_one = [](std::string_view name, std::int64_t value) {
    QRL_REQUIRE(value >= 1, "decoder options: " + std::string(name), "1 or more", std::to_string(value));
  };
  at_least_one("max_num_seqs", options.max_num_seqs);
  at_least_one("max_num_batched_tokens", options.max_num_batched_tokens);
  at_least_one("page_size", options.page_size);
  at_least_one("kv_pages", options.kv_pages);
  at_least_one("max_model_len", options.max_model_len);
  QRL_REQUIRE(options.num_threads >= 0, "decoder options: num_threads", "0 (the caller's) or more",
              std::to_string(options.num_threads));
  QRL_INVARIANT(options.logit_tile_tokens > 0 && options.logit_tile_tokens % ops::kSampleBlock == 0, "decoder options",
                "logit_tile_tokens a multiple of " + std::to_string(ops::kSampleBlock),
                std::to_string(options.logit_tile_tokens));
  QRL_REQUIRE(options.max_model_len <= config.max_position_embeddings, "decoder options: max_model_len",
              "at most the model's max_position_embeddings = " + std::to_string(config.max_position_embeddings),
              std::to_string(options.max_model_len), "shorten prompts or responses");
}

void check_params(const types::SamplingParams& params, const DecoderOptions& options) {
  QRL_REQUIRE(params.max_new_tokens >= 1, "sampling: max_new_tokens", "1 or more",
              std::to_string(params.max_new_tokens));
  QRL_REQUIRE(params.temperature >= 0 && std::isfinite(params.temperature), "sampling: temperature", "0 or more",
              std::to_string(params.temperature));
  QRL_REQUIRE(params.top_p > 0 && params.top_p <= 1, "sampling: top_p", "above 0, at most 1",
              std::to_string(params.top_p));
  QRL_REQUIRE(params.top_k == -1 || params.top_k >= 1, "sampling: top_k", "-1 (off), or 1 or more",
              std::to_string(params.top_k));
  QRL_REQUIRE(params.max_kept >= 0, "sampling: max_kept", "0 (off) or more", std::to_string(params.max_kept));
  QRL_REQUIRE(std::ranges::find(params.stop_strings, "") == params.stop_strings.end(), "sampling: stop_strings",
              "strings of one byte or more", "an empty string");
  QRL_INVARIANT(params.stop_strings.empty() || options.bytes_of, "sampling: stop_strings",
                "a decoder that knows its tokens' text (bytes_of)", "a decoder without bytes_of");
}

void check_request(const Request& request, const DecoderOptions& options, const model::ModelConfig& config) {
  check_params(request.params, options);
  const std::int32_t max_new_tokens = request.params.max_new_tokens;
  const auto where = [&] { return "prompt " + std::to_string(request.prompt_id); };
  QRL_REQUIRE(request.num_samples >= 1 && request.first_sample >= 0, where(), "one sample or more, counted from 0",
              std::to_string(request.num_samples) + " from " + std::to_string(request.first_sample));
  QRL_REQUIRE(request.first_position >= 0, where(), "a first_position of 0 or more",
              std::to_string(request.first_position));
  QRL_REQUIRE(!request.prompt_tokens.empty(), where(), "one token or more", "no tokens");
  for (const types::TokenId token : request.prompt_tokens) {
    QRL_REQUIRE(token >= 0 && token < config.vocab_size, where(),
                "tokens below the model's vocab_size = " + std::to_string(config.vocab_size), std::to_string(token),
                "check that the tokenizer belongs to the model");
  }
  const auto prompt_tokens = static_cast<std::int64_t>(request.prompt_tokens.size());
  const auto got = [&] {
    return std::to_string(prompt_tokens) + " prompt + " + std::to_string(max_new_tokens) + " new tokens";
  };
  QRL_REQUIRE(prompt_tokens + max_new_tokens <= options.max_model_len, where(),
              "at most max_model_len = " + std::to_string(options.max_model_len) + " tokens", got(),
              "shorten the prompt, or lower max_new_tokens");
  // The last sampled token is never an input, so it needs no slot.
  QRL_REQUIRE(prompt_tokens + max_new_tokens - 1 <= options.kv_pages * options.page_size, where(),
              "at most the KV pool's " + std::to_string(options.kv_pages) + " pages of " +
                  std::to_string(options.page_size) + " tokens",
              got(), "raise kv_pages, or lower max_new_tokens");
}

std::unique_ptr<Backend> make_backend(const model::ModelConfig& config, const DecoderOptions& options) {
  check_options(options, config);
  if (options.device == base::Device::cpu) return make_cpu_backend(config, options);
  const std::string missing = model::missing_on_gpu(config);
  QRL_REQUIRE(missing.empty(), "rollout.device cuda", "a model that the CUDA kernels compute", "one with " + missing,
              "use rollout.device cpu");
  return make_device_backend(config, options, cuda::make_engine(engine_options(config, options)));
}

}  // namespace

struct Decoder::State {
  State(const model::ModelConfig& model_config, const DecoderOptions& decoder_options, std::unique_ptr<Backend> backend)
      : config(model_config), options(decoder_options), loop(config, options, std::move(backend)) {}

  void require_idle(const char* what) const {
    QRL_INVARIANT(loop.idle(), std::string("decoder: ") + what, "no unfinished request", "unfinished requests",
                  "call tick until it returns false");
  }

  /// Returns checked requests.
  std::vector<Request> requests_of(std::span<const types::SampleRequest> requests, const types::SamplingParams& params,
                                   types::SampleKey key) const {
    std::vector<Request> made;
    made.reserve(requests.size());
    for (const types::SampleRequest& request : requests) {
      const std::vector<types::TokenId> prompt(request.prompt_tokens.begin(), request.prompt_tokens.end());
      made.push_back({request.prompt_id, prompt, request.first_sample, request.num_samples, params, key});
      check_request(made.back(), options, config);
    }
    return made;
  }

  model::ModelConfig config;
  DecoderOptions options;
  TickLoop loop;
  const model::Snapshot* snapshot = nullptr;
  std::vector<FinishedRequest> finished_before;  // requests passed to `submit` that finished during `complete`
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
  QRL_INVARIANT(snapshot.config() == state.config, "decoder", "a snapshot of the decoder's model",
                "a snapshot of another model");
  QRL_INVARIANT(snapshot.version() >= 0, "decoder", "a published snapshot", "a snapshot without weights");
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
  request.params.temperature *= state.config.logits_scaling;  // softmax(logits / scaling / temperature)
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
  std::vector<Request> made = state.requests_of(requests, params, key);
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

namespace {

/// Finds a conversation's request in the tick loop.
struct TurnPlace {
  RequestId id = 0;
  std::size_t idx = 0;
  friend auto operator<=>(const TurnPlace&, const TurnPlace&) = default;
};

/// Returns the completion at each sample's place. Places that a prompt of the sample's own replaced are left out.
std::vector<types::Completion> completions_at(const std::vector<TurnPlace>& places,
                                              const std::map<TurnPlace, std::size_t>& sample_at,
                                              std::vector<FinishedRequest>& requests) {
  std::vector<types::Completion> completions(places.size());
  for (FinishedRequest& request : requests) {
    for (std::size_t i = 0; i < request.completions.size(); ++i) {
      const std::size_t sample = sample_at.at({request.id, i});
      if (places[sample] == TurnPlace{request.id, i}) completions[sample] = std::move(request.completions[i]);
    }
  }
  return completions;
}

}  // namespace

std::vector<types::Completion> Decoder::converse(std::span<const types::SampleRequest> requests,
                                                 const types::SamplingParams& params, types::SampleKey key,
                                                 types::TurnPartner& partner) {
  State& state = *state_;
  state.require_idle("converse");
  std::vector<TurnPlace> places;
  std::map<TurnPlace, std::size_t> sample_at;
  std::vector<Request> own;  // a sample's request with a prompt of its own, by sample
  const auto put = [&](std::size_t sample, TurnPlace place) {
    places[sample] = place;
    sample_at[place] = sample;
  };
  const auto submit_by_turns = [&](Request request) {
    request.by_turns = true;
    return submit(std::move(request));
  };
  for (Request& request : state.requests_of(requests, params, key)) {
    for (std::int32_t i = 0; i < request.num_samples; ++i) {
      own.push_back({request.prompt_id, {}, request.first_sample + i, 1, params, key});
    }
    const auto num_samples = static_cast<std::size_t>(request.num_samples);
    const RequestId id = submit_by_turns(std::move(request));
    for (std::size_t i = 0; i < num_samples; ++i) {
      places.emplace_back();
      put(places.size() - 1, {id, i});
    }
  }
  std::size_t num_open = places.size();
  const auto apply = [&](types::TurnReply& reply) {
    TurnPlace place = places.at(reply.sample);
    if (reply.ends) --num_open;
    if (reply.ends) return state.loop.end(place.id, place.idx);
    if (!reply.prompt.empty()) {
      own[reply.sample].prompt_tokens = std::move(reply.prompt);
      put(reply.sample, {submit_by_turns(std::move(own[reply.sample])), 0});
      state.loop.end(place.id, place.idx);
      place = places[reply.sample];
    }
    state.loop.resume(place.id, place.idx, reply.tokens, reply.max_tokens);
  };
  try {
    double before_s = base::now_s();
    do {
      for (types::TurnReply& reply : partner.take_replies(!state.loop.has_work())) apply(reply);
      const auto allowed =
          static_cast<double>(std::min(num_open, static_cast<std::size_t>(state.options.max_num_seqs)));
      const bool ticks = state.loop.has_work();
      const double tick_begin_s = base::now_s();
      (void)tick();
      const double now_s = base::now_s();
      state.loop.add_slot_use(ticks ? (now_s - tick_begin_s) * static_cast<double>(state.loop.num_chosen()) : 0,
                              (now_s - before_s) * allowed);
      before_s = now_s;
      for (const TickLoop::Turn& turn : state.loop.take_turns())
        partner.end_turn(sample_at.at({turn.id, turn.idx}), *turn.so_far);
    } while (!state.loop.idle());
  } catch (...) {
    state.loop.abandon();
    throw;
  }
  std::vector<FinishedRequest> finished = state.loop.take_finished();
  const auto is_own = [&](const FinishedRequest& one) { return sample_at.contains({one.id, 0}); };
  const auto others = std::stable_partition(finished.begin(), finished.end(), is_own);
  std::move(others, finished.end(), std::back_inserter(state.finished_before));
  finished.erase(others, finished.end());
  return completions_at(places, sample_at, finished);
}

void Decoder::release_kv() {
  state_->require_idle("release_kv");
  state_->loop.backend().release_kv();
}

model::DeviceWeights* Decoder::device_weights() { return state_->loop.backend().device_weights(); }

bool Decoder::reads(const model::Snapshot& snapshot) const { return state_->snapshot == &snapshot; }

const model::Snapshot& Decoder::snapshot() const {
  QRL_INVARIANT(state_->snapshot != nullptr, "decoder", "weights (load)", "no weights");
  return *state_->snapshot;
}

const DecoderStats& Decoder::stats() const { return state_->loop.stats(); }

void Decoder::reset_stats() { state_->loop.reset_stats(); }

}  // namespace qrl::decoder
