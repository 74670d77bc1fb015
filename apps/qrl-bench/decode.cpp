#include <algorithm>
#include <nlohmann/json.hpp>

#include "benchmarks.h"
#include "model_bench.h"
#include "state/hash.h"
#include "train/plan/work_estimate.h"
#include "train/policy/quantizer.h"
#include "train/policy/sampler.h"

namespace qrl::app {

namespace {

void bench_decode(const BenchArguments& arguments, dist::Collectives& world) {
  ModelBench bench("decode", arguments, world);
  train::RolloutRecipe& rollout = bench.loaded.recipe.rollout;
  rollout.max_num_seqs = arguments.batch;
  require_whole_batch(bench.loaded.recipe, arguments);
  train::Sampler sampler(bench.config, bench.loaded.recipe, world, arguments.prompt_tokens,
                         arguments.logit_tile_tokens);
  sampler.snapshot.publish(bench.hf.weights, 0);
  train::QuantizerState quantizer;
  std::vector<std::vector<types::TokenId>> prompts;
  std::vector<types::SampleRequest> requests;
  for (std::int64_t b = 0; b < arguments.batch; ++b)
    prompts.push_back(bench.random_tokens(static_cast<std::uint64_t>(b), arguments.prompt_tokens));
  for (std::size_t b = 0; b < prompts.size(); ++b) requests.push_back({b, prompts[b], 0, 1});
  train::load_published(sampler, prompts, bench.loaded.recipe.quant, quantizer);

  double decode_rate = 0, prefill_rate = 0;
  decoder::DecoderStats best;
  state::Hash drawn;
  for (std::int64_t round = 0; round < arguments.rounds; ++round) {
    sampler.decoder.reset_stats();
    const auto completions =
        sampler.decoder.complete(requests, bench.sampling(), {0, static_cast<std::uint32_t>(round)});
    for (const types::Completion& completion : completions)
      drawn.add(completion.tokens.data(), completion.tokens.size() * sizeof(types::TokenId));
    const decoder::DecoderStats& stats = sampler.decoder.stats();
    const double rate = stats.decode_s > 0 ? static_cast<double>(stats.decode_only_tokens) / stats.decode_s : 0;
    if (rate > decode_rate) best = stats;
    decode_rate = std::max(decode_rate, rate);
    prefill_rate = std::max(prefill_rate, static_cast<double>(stats.prefill_tokens) / stats.prefill_s);
  }
  DecodeTick tick = bench.tick_of(arguments.batch);
  if (best.decode_ticks > 0)
    tick.experts_read = static_cast<double>(best.decode_experts) / static_cast<double>(best.decode_ticks);
  nlohmann::ordered_json result = bench.facts();
  result["batch"] = arguments.batch;
  result["prompt_tokens"] = arguments.prompt_tokens;
  result["new_tokens"] = arguments.new_tokens;
  result["decode_tokens_per_s"] = decode_rate;
  if (!bench.on_gpu()) {  // the ceilings are measured on the CPU
    const double limit = tick.batch / least_tick_s(sampler.snapshot, tick, bench.ceilings);
    result["limit_tokens_per_s"] = limit;
    result["share_of_limit"] = decode_rate / limit;
  } else if (best.decode_ticks > 0) {
    // Host time includes launches, but not waiting for the device.
    const auto ticks = static_cast<double>(best.decode_ticks);
    result["host_s_per_tick"] = (best.decode_s - best.decode_waited_s) / ticks;
    result["host_share_of_tick"] = 1 - best.decode_waited_s / best.decode_s;
    result["graph_share_of_ticks"] = static_cast<double>(best.decode_graph_ticks) / ticks;
  }
  result["tokens_xxh3"] = drawn.hex();
  const AttentionWork attention = attention_of_tick(bench.config, tick);
  result["tick_ms"] = 1e3 * tick.batch / decode_rate;
  if (bench.config.has_experts()) result["tick_experts"] = tick.experts_read;
  result["tick_kv_bytes"] = attention.kv_bytes;
  result["tick_attention_flops"] = attention.operations;
  result["prefill_tokens_per_s"] = prefill_rate;
  // Excludes attention's operations.
  result["prefill_share_of_ceiling"] =
      2 * train::matmul_params(bench.config).layers * prefill_rate / ceiling_of(bench.quant_format(), bench.ceilings);
  result["weight_bytes"] = sampler.snapshot.num_bytes();
  finish(result, arguments);
}

}  // namespace

void add_bench_decode(CLI::App& program, Action& action) {
  const auto arguments = std::make_shared<BenchArguments>();
  // Requires two new tokens, because the prefill already samples the first.
  CLI::App* command =
      add_model_bench(program, "decode", "decode speed: B distinct prompts, prefill excluded", *arguments, 2);
  add_integer(*command, "--batch", arguments->batch, 1, kMaxBenchSequences, "number of sequences");
  add_integer(*command, "--vocab", arguments->vocab_size, 2, kMaxBenchTokens, "vocabulary of the built-in shape")
      ->excludes(command->get_option("--model"));
  add_integer(*command, "--logit-tile", arguments->logit_tile_tokens, 256, kMaxBenchTokens,
              "vocabulary tokens whose logits are in memory at once, a multiple of 256; does not change samples")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return std::stoll(text) % 256 == 0 ? std::string() : "expected a multiple of 256, got " + text;
          },
          ""));
  set_action(*command, action, arguments, bench_decode);
}

}  // namespace qrl::app
