#include "decoder/decoder.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/threads.h"
#include "decoder/kv_cache.h"
#include "decoder/page_pool.h"
#include "decoder/plan.h"
#include "decoder/scheduler.h"
#include "decoder/transformer.h"
#include "ops/sample.h"

namespace qrl::decoder {

namespace {

/// Memory for drawn tokens taken at once, so that ticks up to this length allocate nothing.
constexpr std::int32_t kReservedTokens = 1024;

/// Weights of which a core's own cache holds the most part.
constexpr std::size_t kCachedWeightBytes = std::size_t{4} << 20;

/// Everything a draw depends on besides the weights and the tokens before it.
double draw_uniform(const base::RandomField& field, const Sequence& sequence, std::uint32_t step) {
  const std::uint64_t prompt_id = sequence.group->prompt_id;
  const auto high = static_cast<std::uint32_t>(prompt_id >> 32);
  const auto low = static_cast<std::uint32_t>(prompt_id);
  return field.uniform({static_cast<std::uint32_t>(sequence.completion->tokens.size()),
                        static_cast<std::uint32_t>(sequence.sample_idx), low ^ (high * 0x9E3779B9U), step});
}

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
      : config(model_config),
        options(decoder_options),
        kv(model_config, decoder_options.kv_pages, decoder_options.page_size, decoder_options.kv_format),
        plan(model_config) {}

  void make_workspaces(int num_threads, bool whole_rows);
  void forward_and_sample(const types::SamplingParams& params, types::SampleKey key);
  void sample(base::Team& team, const PlanPart& part, Transformer::Workspace& scratch, const ops::DrawParams& params,
              const base::RandomField& field, std::uint32_t step);
  void give_to_sequences(const types::SamplingParams& params, std::int64_t version);
  void count_tick(double tick_s);

  model::ModelConfig config;
  DecoderOptions options;
  DecoderStats stats;
  KvCache kv;
  Plan plan;
  std::vector<ops::Draw> draws;  // of the plan's draw_rows
  std::optional<Transformer> transformer;
  std::vector<Transformer::Workspace> workspaces;  // one a thread; a team of all uses the first
};

Decoder::Decoder(const model::ModelConfig& config, const DecoderOptions& options) {
  check(options, config);
  state_ = std::make_unique<State>(config, options);
}

Decoder::~Decoder() = default;

void Decoder::load(const model::Snapshot& snapshot) {
  State& state = *state_;
  QRL_INVARIANT(snapshot.config() == state.config, "decoder", "a snapshot of the model it was made for",
                "another model");
  QRL_INVARIANT(snapshot.version() >= 0, "decoder", "a published snapshot", "one without weights");
  state.workspaces.clear();
  state.transformer.emplace(snapshot, state.options.max_num_batched_tokens, state.options.max_model_len);
}

void Decoder::calibrate_kv(std::span<const std::vector<types::TokenId>> sequences, const KvCalibration& options) {
  State& state = *state_;
  if (state.kv.format() != quant::KvFormat::fp8_e4m3) return;
  QRL_INVARIANT(state.transformer.has_value(), "decoder", "weights (load)", "none");
  state.kv.set_scales(decoder::calibrate_kv(state.transformer->snapshot(), sequences, options));
}

void Decoder::set_kv_scales(KvScales scales) { state_->kv.set_scales(std::move(scales)); }
const KvScales& Decoder::kv_scales() const { return state_->kv.scales(); }

std::vector<types::Completion> Decoder::complete(std::span<const types::SampleRequest> requests,
                                                 const types::SamplingParams& params, types::SampleKey key) {
  State& state = *state_;
  QRL_INVARIANT(state.transformer.has_value(), "decoder", "weights (load)", "none");
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
  state.kv.allocate();
  state.make_workspaces(base::num_threads(), ops::DrawParams{params.temperature, params.top_p, params.top_k}.cuts());

  const model::Snapshot& snapshot = state.transformer->snapshot();
  const std::int64_t version = snapshot.version();
  QRL_INVARIANT(state.kv.format() != quant::KvFormat::fp8_e4m3 || state.kv.scales().version == version, "decoder",
                "fp8 scales calibrated for version " + std::to_string(version),
                "version " + std::to_string(state.kv.scales().version), "calibrate after every publish");
  PagePool pool(state.options.kv_pages);
  Scheduler scheduler(state.options, pool, state.stats);
  scheduler.submit(requests, completions);
  while (!scheduler.done()) {
    if (state.options.before_tick) state.options.before_tick();
    const double start_s = base::now_s();
    const std::span<Sequence* const> chosen = scheduler.choose();
    state.plan.build(chosen, base::num_threads(), snapshot.num_bytes() <= kCachedWeightBytes);
    state.forward_and_sample(params, key);
    QRL_INVARIANT(snapshot.version() == version, "decoder", "weights of version " + std::to_string(version),
                  "version " + std::to_string(snapshot.version()), "publish between calls, never during one");
    state.give_to_sequences(params, version);
    scheduler.retire();
    state.count_tick(base::now_s() - start_s);
  }
  return completions;
}

void Decoder::release_kv() { state_->kv.release(); }

const model::Snapshot& Decoder::snapshot() const {
  QRL_INVARIANT(state_->transformer.has_value(), "decoder", "weights (load)", "none");
  return state_->transformer->snapshot();
}

const DecoderStats& Decoder::stats() const { return state_->stats; }

void Decoder::reset_stats() { state_->stats = {}; }

void Decoder::State::make_workspaces(int num_threads, bool whole_rows) {
  while (workspaces.size() < static_cast<std::size_t>(num_threads)) workspaces.emplace_back(transformer->snapshot());
  const std::int64_t columns = whole_rows ? config.vocab_size : std::min(config.vocab_size, options.logit_tile_tokens);
  for (Transformer::Workspace& workspace : workspaces) workspace.make_room_for_logits(columns);
}

/// One parallel region a tick: nothing but barriers inside a part, and not even those when each thread has its own.
void Decoder::State::forward_and_sample(const types::SamplingParams& params, types::SampleKey key) {
  const ops::DrawParams draw_params{params.temperature, params.top_p, params.top_k};
  const base::RandomField field(key.seed, base::RandomPurpose::sampling);
  draws.resize(plan.draw_rows.size());
  const auto run = [&](base::Team& team, const PlanPart& part, Transformer::Workspace& scratch) {
    transformer->forward(team, plan, part, kv, scratch);
    sample(team, part, scratch, draw_params, field, key.step);
  };
  base::parallel(0, [&](base::Team& team) {
    if (!plan.each_alone) return run(team, plan.parts.front(), workspaces.front());
    base::Team alone = base::Team::solo();
    for (auto i = static_cast<std::size_t>(team.rank()); i < plan.parts.size();
         i += static_cast<std::size_t>(team.size())) {
      run(alone, plan.parts[i], workspaces[i]);
    }
  });
}

void Decoder::State::sample(base::Team& team, const PlanPart& part, Transformer::Workspace& scratch,
                            const ops::DrawParams& params, const base::RandomField& field, std::uint32_t step) {
  std::exception_ptr error;  // of a draw; kept until no other member waits at a barrier for this one
  const auto try_row = [&](const auto& body) {
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
  };
  const std::int64_t tile = params.cuts() ? config.vocab_size : std::min(config.vocab_size, options.logit_tile_tokens);
  for (std::int64_t first = part.draws.begin; first < part.draws.end; first += Transformer::kLogitRows) {
    const std::int64_t count = std::min(Transformer::kLogitRows, part.draws.end - first);
    transformer->choose_rows(
        team, std::span(plan.draw_rows).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
        scratch);
    const base::Range share = team.slice(count);
    const auto draw_of = [&](std::int64_t i) -> ops::Draw& { return draws[static_cast<std::size_t>(first + i)]; };
    const auto uniform_of = [&](std::int64_t i) {
      return draw_uniform(field, *plan.draw_sequences[static_cast<std::size_t>(first + i)], step);
    };
    if (params.cuts()) {  // top-k and top-p look at a row as a whole
      const float* logits = transformer->logits(team, count, {0, tile}, scratch);
      for (std::int64_t i = share.begin; i < share.end; ++i) {
        try_row([&] { draw_of(i) = ops::draw(logits + i * tile, tile, params, uniform_of(i)); });
      }
      continue;
    }
    std::vector<ops::RowSummary>& rows = scratch.summaries;
    for (std::int64_t i = share.begin; i < share.end; ++i) rows[static_cast<std::size_t>(i)].begin(params.temperature);
    const float* logits = nullptr;
    std::int64_t begin = 0;
    for (; begin < config.vocab_size; begin += tile) {
      const std::int64_t size = std::min(tile, config.vocab_size - begin);
      logits = transformer->logits(team, count, {begin, begin + size}, scratch);
      for (std::int64_t i = share.begin; i < share.end; ++i) {
        rows[static_cast<std::size_t>(i)].take(logits + i * size, size);
      }
    }
    const bool all_there = tile == config.vocab_size;  // else the drawn token's block is made again
    for (std::int64_t i = share.begin; i < share.end; ++i) {
      try_row([&] {
        ops::RowSummary& row = rows[static_cast<std::size_t>(i)];
        row.end();
        const ops::RowSummary::Place place = row.place(uniform_of(i));
        float again[ops::kDrawBlock];
        const float* block = logits + i * tile + place.begin;
        if (!all_there) {
          transformer->logits_of_row(i, {place.begin, place.begin + place.count}, scratch, again);
          block = again;
        }
        draw_of(i) = row.draw(place, block);
      });
    }
  }
  if (error) std::rethrow_exception(error);
}

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

void Decoder::State::count_tick(double tick_s) {
  const std::int64_t num_prefill_rows = plan.num_rows() - plan.num_decode_rows;
  ++stats.ticks;
  stats.prefill_tokens += num_prefill_rows;
  stats.decode_tokens += plan.num_decode_rows;
  if (num_prefill_rows == 0) stats.decode_only_tokens += plan.num_decode_rows;
  (num_prefill_rows == 0 ? stats.decode_s : stats.prefill_s) += tick_s;
}

}  // namespace qrl::decoder
