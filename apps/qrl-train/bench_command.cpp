// bench: what decode, learner and a whole step reach on this machine, beside what the machine can do at most.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/threads.h"
#include "bench_corrections.h"
#include "bench_shapes.h"
#include "command.h"
#include "learner/cuda_library.h"
#include "ops/ceilings.h"
#include "ops/isa.h"
#include "rollout/rollout.h"
#include "state/hash.h"
#include "train/gap_probe.h"
#include "train/quantiser.h"
#include "train/session.h"
#include "train/step_metrics.h"
#include "train/work_estimate.h"

namespace qrl::app {

namespace {

using Json = nlohmann::ordered_json;

struct BenchArguments {
  std::vector<std::string> overrides;
  std::string model_dir, shape = "86m";
  std::int64_t batch = 64, prompts = 8, n = 8, prompt_tokens = 128, new_tokens = 256, rounds = 3;
  std::optional<std::int64_t> vocab_size, logit_tile_tokens;
  bool json = false;
};

model::HfModel model_of(const BenchArguments& arguments) {
  if (!arguments.model_dir.empty()) return model::open_hf(arguments.model_dir);
  model::ModelConfig config = built_in_shape(arguments.shape);
  config.vocab_size = arguments.vocab_size.value_or(config.vocab_size);
  return {config, model::new_weights(config, 0)};
}

/// Keys of a recipe that change what the benchmark `name` measures: it makes prompts and schedule itself. A dot at the
/// end stands for all keys below.
std::vector<std::string> heard_keys(const std::string& name) {
  const std::vector<std::string> decode = {"quant.kv_calibration.percentile",
                                           "quant.kv_calibration.margin",
                                           "rollout.device",
                                           "rollout.max_num_batched_tokens",
                                           "rollout.page_size",
                                           "rollout.gpu_memory_utilization",
                                           "rollout.enforce_eager"};
  const std::vector<std::string> learner = {"model.dtype",
                                            "quant.learner.",
                                            "rollout.bitwise",
                                            "actor.max_tokens_per_micro_batch",
                                            "optim.",
                                            "actor.logprob_chunk_tokens",
                                            "actor.activation_checkpointing",
                                            "algorithm.tbpo.",
                                            "algorithm.name",
                                            "algorithm.clip_ratio_low",
                                            "algorithm.clip_ratio_high",
                                            "algorithm.clip_ratio_c",
                                            "algorithm.loss_agg_mode",
                                            "algorithm.entropy_coef"};
  std::vector<std::string> keys = {"quant.rollout.weights",
                                   "quant.rollout.activations",
                                   "quant.rollout.granularity",
                                   "quant.rollout.ignore",
                                   "quant.rollout.lm_head",
                                   "quant.rollout.kv_cache",
                                   "rollout.temperature",
                                   "rollout.top_p",
                                   "rollout.top_k",
                                   "trainer.threads",
                                   "trainer.device"};
  if (name != "learner") keys.insert(keys.end(), decode.begin(), decode.end());
  if (name != "decode") keys.insert(keys.end(), learner.begin(), learner.end());
  if (name == "step") {
    for (const char* key :
         {"quant.kv_calibration.when", "rollout.max_num_seqs", "rollout.prefix_sharing", "rollout.free_cache_engine"})
      keys.emplace_back(key);
  }
  return keys;
}

/// Refuses keys that the benchmark `name` would not hear.
const std::vector<std::string>& checked(const std::vector<std::string>& overrides, const std::string& name) {
  const std::vector<std::string> keys = heard_keys(name);
  for (const std::string& text : overrides) {
    const std::string key = text.substr(0, text.find('='));
    const bool is_heard = std::ranges::any_of(
        keys, [&](const std::string& each) { return each.ends_with('.') ? key.starts_with(each) : key == each; });
    if (is_heard) continue;
    std::string known;
    for (const std::string& each : keys) known += (known.empty() ? "" : ", ") + each + (each.ends_with('.') ? "*" : "");
    base::fail_input("bench " + name + " --set", "a key that changes what it measures: " + known, base::quoted(key),
                     "it has arguments of its own for model, prompts and samples, one update a step, no correction");
  }
  return overrides;
}

/// Everything the three benchmarks share: a model, the recipe's settings (defaults: int8 weights, bf16 learner), the
/// machine's ceilings measured in this very run.
struct Bench {
  Bench(const std::string& what, const BenchArguments& arguments, const dist::Collectives& world)
      : args(arguments),
        name(what),
        loaded(config::parse_recipe("trainer: {seed: 0}", "bench", ".", checked(arguments.overrides, what), false)),
        ceilings((train::set_threads(loaded.recipe, world), ops::measure_ceilings())),
        hf(model_of(args)),
        config(hf.config) {
    train::reset_peak_memory();  // the ceilings' own buffer is not the model's
    // Bench works on token ids: lengths come from its own arguments.
    config::Recipe& r = loaded.recipe;
    r.data.max_prompt_length = args.prompt_tokens;
    r.data.max_response_length = args.new_tokens;
    r.actor.max_tokens_per_micro_batch =
        std::max(r.actor.max_tokens_per_micro_batch, args.prompt_tokens + args.new_tokens);
  }

  Json facts() const {
    return {{"bench", name},
            {"model", args.model_dir.empty() ? args.shape : args.model_dir},
            {"isa", ops::name(ops::isa())},
            {"rollout_device", on_gpu() ? "cuda" : "cpu"},
            {"learner_device", config::learns_on_gpu(loaded.recipe) ? "cuda" : "cpu"},
            {"threads", base::num_threads()},
            {"weights", quant::name(quant_format())},
            {"learner_forward", train::name(loaded.recipe.quant.learner_forward)},
            {"kv_cache", quant::name(train::kv_format(loaded.recipe.quant))},
            {"ceiling_int8_tops", ceilings.int8_ops_per_s * 1e-12},
            {"ceiling_bf16_tflops", ceilings.bf16_flops_per_s * 1e-12},
            {"ceiling_f32_tflops", ceilings.f32_flops_per_s * 1e-12},
            {"ceiling_dram_gb_per_s", ceilings.dram_bytes_per_s * 1e-9}};
  }

  bool on_gpu() const { return config::draws_on_gpu(loaded.recipe); }
  quant::Format quant_format() const { return train::snapshot_formats(loaded.recipe.quant).linear; }

  /// A decode tick of this many sequences halfway through their new tokens.
  train::DecodeTick tick_of(std::int64_t batch) const {
    return {static_cast<double>(batch),
            static_cast<double>(args.prompt_tokens) + static_cast<double>(args.new_tokens) / 2,
            train::kv_format(loaded.recipe.quant), loaded.recipe.rollout.page_size};
  }

  std::vector<types::TokenId> random_tokens(std::uint64_t stream, std::int64_t count) const {
    base::RandomStream random(0, base::RandomPurpose::generator, stream);
    std::vector<types::TokenId> tokens(static_cast<std::size_t>(count));
    for (types::TokenId& token : tokens)
      token = static_cast<types::TokenId>(random.below(static_cast<std::uint64_t>(config.vocab_size)));
    return tokens;
  }

  types::SamplingParams sampling() const {  // no stop tokens: every completion has new_tokens tokens
    types::SamplingParams params;
    params.temperature = static_cast<float>(loaded.recipe.rollout.temperature);
    params.top_p = static_cast<float>(loaded.recipe.rollout.top_p);
    params.top_k = static_cast<std::int32_t>(loaded.recipe.rollout.top_k);
    params.max_new_tokens = static_cast<std::int32_t>(args.new_tokens);
    return params;
  }

  BenchArguments args;
  std::string name;
  config::LoadedRecipe loaded;
  ops::Ceilings ceilings;
  model::HfModel hf;
  model::ModelConfig config;
};

void finish(Json& result, const BenchArguments& arguments) {
  result["peak_memory_gib"] = train::peak_memory_gib();
  print_result(result, arguments.json);
}

void bench_decode(const BenchArguments& arguments, dist::Collectives& world) {
  require_one_process(world, "bench");
  Bench bench("decode", arguments, world);
  config::RolloutRecipe& rollout = bench.loaded.recipe.rollout;
  rollout.max_num_seqs = arguments.batch;
  QRL_REQUIRE(rollout.max_num_batched_tokens >= arguments.batch, "bench decode",
              "rollout.max_num_batched_tokens of at least --batch = " + std::to_string(arguments.batch),
              std::to_string(rollout.max_num_batched_tokens),
              "with fewer a tick is not of the whole batch, which the limit is of: raise it with --set");
  train::Sampler sampler(bench.config, bench.loaded.recipe, world, arguments.prompt_tokens,
                         arguments.logit_tile_tokens);
  sampler.snapshot.publish(bench.hf.weights, 0);
  train::QuantiserState quantiser;
  std::vector<std::vector<types::TokenId>> prompts;
  std::vector<types::SampleRequest> requests;
  for (std::int64_t b = 0; b < arguments.batch; ++b)
    prompts.push_back(bench.random_tokens(static_cast<std::uint64_t>(b), arguments.prompt_tokens));
  for (std::size_t b = 0; b < prompts.size(); ++b) requests.push_back({b, prompts[b], 0, 1});
  train::load_published(sampler, prompts, bench.loaded.recipe.quant, quantiser);

  double decode_rate = 0, prefill_rate = 0;
  decoder::DecoderStats best;  // of the round with that decode rate
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
  const train::DecodeTick tick = bench.tick_of(arguments.batch);
  Json result = bench.facts();
  result["batch"] = arguments.batch;
  result["prompt_tokens"] = arguments.prompt_tokens;
  result["new_tokens"] = arguments.new_tokens;
  result["decode_tokens_per_s"] = decode_rate;
  if (!bench.on_gpu()) {  // the ceilings are this machine's processors'
    const double limit = tick.batch / train::least_tick_s(sampler.snapshot, tick, bench.ceilings);
    result["limit_tokens_per_s"] = limit;
    result["share_of_limit"] = decode_rate / limit;
  } else if (best.decode_ticks > 0) {
    // What a tick keeps the host busy, launches included, in which it does not wait for the device.
    const auto ticks = static_cast<double>(best.decode_ticks);
    result["host_s_per_tick"] = (best.decode_s - best.decode_waited_s) / ticks;
    result["host_share_of_tick"] = 1 - best.decode_waited_s / best.decode_s;
    result["graph_share_of_ticks"] = static_cast<double>(best.decode_graph_ticks) / ticks;
  }
  result["tokens_xxh3"] = drawn.hex();  // of all rounds' tokens
  const train::AttentionWork attention = train::attention_of_tick(bench.config, tick);
  result["tick_ms"] = 1e3 * tick.batch / decode_rate;
  result["tick_kv_bytes"] = attention.kv_bytes;
  result["tick_attention_flops"] = attention.operations;
  result["prefill_tokens_per_s"] = prefill_rate;
  // Of the layers' matrix products alone: attention is not counted.
  result["prefill_share_of_ceiling"] = 2 * train::matmul_params(bench.config).layers * prefill_rate /
                                       train::ceiling_of(bench.quant_format(), bench.ceilings);
  result["weight_bytes"] = sampler.snapshot.num_bytes();
  finish(result, arguments);
}

/// Packed micro-batches of prompts·n sequences with random tokens and advantages.
struct LearnerWork {
  LearnerWork(const Bench& bench, const std::vector<types::Completion>& completions) {
    const BenchArguments& args = bench.args;
    for (std::int64_t p = 0; p < args.prompts; ++p)
      prompts.push_back(bench.random_tokens(static_cast<std::uint64_t>(p), args.prompt_tokens));
    std::vector<rollout::PackItem> items;
    for (std::int64_t i = 0; i < args.prompts * args.n; ++i) {
      const auto& completion = completions[static_cast<std::size_t>(i)];
      items.push_back({prompts[static_cast<std::size_t>(i / args.n)], completion.tokens, completion.sampler_logprobs,
                       i % 2 == 0 ? 1.0F : -1.0F});
    }
    batches = rollout::pack(items, bench.loaded.recipe.actor.max_tokens_per_micro_batch);
    counts = rollout::count(batches);
  }
  std::vector<std::vector<types::TokenId>> prompts;
  std::vector<types::MicroBatch> batches;
  types::GlobalCounts counts;
};

/// With `sampled`, the log-probs in `work` are the sampler's at the learner's present weights: a bitwise learner then
/// checks that every one of them is its own, bit for bit, and throws where one is not.
learner::UpdateReport learn(learner::Learner& learner, const LearnerWork& work, const config::Recipe& recipe,
                            bool sampled) {
  learner::LossOptions loss{learner::LossKind::policy, recipe.algorithm, recipe.rollout_correction};
  loss.at_sampling_weights = sampled;
  for (const types::MicroBatch& batch : work.batches) {
    learner.accumulate(batch, work.counts, loss, train::draw_params(recipe.rollout), &batch == &work.batches.back());
  }
  return learner.update();
}

void add_learner_figures(Json& result, const Bench& bench, const LearnerWork& work, double learner_s) {
  const auto sequences = static_cast<double>(bench.args.prompts * bench.args.n);
  const double tokens = sequences * static_cast<double>(bench.args.prompt_tokens + bench.args.new_tokens);
  const config::ComputeDType dtype = bench.loaded.recipe.model.dtype;
  double ceiling =
      dtype == config::ComputeDType::bf16 ? bench.ceilings.bf16_flops_per_s : bench.ceilings.f32_flops_per_s;
  if (config::learns_on_gpu(bench.loaded.recipe)) {
    ceiling = learner::measure_gpu_matmul_flops_per_s(dtype);
    result["ceiling_gpu_matmul_tflops"] = ceiling * 1e-12;
  }
  result["learner_tokens_per_s"] = tokens / learner_s;
  result["learner_response_tokens_per_s"] = sequences * static_cast<double>(bench.args.new_tokens) / learner_s;
  const double operations = train::learner_operations(bench.config, work.batches, work.counts.response_tokens);
  const double unshared = train::unshared_learner_operations(bench.config, bench.args.prompts * bench.args.n,
                                                             bench.args.prompt_tokens + bench.args.new_tokens);
  result["learner_share_of_limit"] = operations / learner_s / ceiling;
  result["learner_share_as_if_unshared"] = unshared / learner_s / ceiling;
}

void bench_learner(const BenchArguments& arguments, dist::Collectives& world) {
  require_one_process(world, "bench");
  const Bench bench("learner", arguments, world);
  std::vector<types::Completion> completions;
  for (std::int64_t i = 0; i < arguments.prompts * arguments.n; ++i) {
    completions.push_back(
        {bench.random_tokens(static_cast<std::uint64_t>(1000 + i), arguments.new_tokens), {}, {}, {}});
    completions.back().sampler_logprobs.assign(static_cast<std::size_t>(arguments.new_tokens), -8.0F);
  }
  const LearnerWork work(bench, completions);
  learner::Learner learner(bench.config, bench.hf.weights, train::learner_options(bench.loaded.recipe), world);
  const config::Recipe& recipe = bench.loaded.recipe;
  // What a quantised forward pass reads; on a GPU low_bit's products are a decoder's.
  std::optional<train::Sampler> sampler;
  std::optional<model::Snapshot> snapshot;
  const config::LearnerForward forward = recipe.quant.learner_forward;
  if (forward == config::LearnerForward::low_bit && config::learns_on_gpu(recipe))
    sampler.emplace(bench.config, recipe, world, arguments.prompt_tokens);
  else snapshot.emplace(bench.config, train::snapshot_formats(recipe.quant));
  double best_s = 0, best_forward_s = 0;
  for (std::int64_t round = 0; round < arguments.rounds; ++round) {
    base::log_info("bench learner: round " + std::to_string(round + 1) + " of " + std::to_string(arguments.rounds));
    if (sampler) {
      learner.publish(sampler->snapshot, round, sampler->decoder.device_weights());
      if (round == 0) sampler->decoder.load(sampler->snapshot);
    } else if (forward != config::LearnerForward::bf16) {
      learner.publish(*snapshot, round);
    }
    const double start_s = base::now_s();
    for (const types::MicroBatch& batch : work.batches)
      learner.score(batch, train::draw_params(bench.loaded.recipe.rollout));
    const double scored_s = base::now_s();
    learn(learner, work, bench.loaded.recipe, false);
    const double took_s = base::now_s() - scored_s, forward_s = scored_s - start_s;
    best_s = round == 0 ? took_s : std::min(best_s, took_s);
    best_forward_s = round == 0 ? forward_s : std::min(best_forward_s, forward_s);
  }
  Json result = bench.facts();
  result["sequences"] = arguments.prompts * arguments.n;
  result["learner_s"] = best_s;
  result["forward_s"] = best_forward_s;  // and log-probs, without what a backward pass needs
  add_learner_figures(result, bench, work, best_s);
  finish(result, arguments);
}

void bench_step(const BenchArguments& arguments, dist::Collectives& world) {
  require_one_process(world, "bench");
  const Bench bench("step", arguments, world);
  train::Sampler sampler(bench.config, bench.loaded.recipe, world, arguments.prompt_tokens);
  learner::Learner learner(bench.config, bench.hf.weights, train::learner_options(bench.loaded.recipe), world);
  train::QuantiserState quantiser;
  const auto publish = [&](std::int64_t version) {
    learner.publish(sampler.snapshot, version, sampler.decoder.device_weights());
  };
  publish(0);
  train::PromptSet prompts;
  for (std::uint64_t p = 0; p < static_cast<std::uint64_t>(arguments.prompts); ++p) {
    prompts.prompts.push_back({.id = p,
                               .text = {},
                               .tokens = bench.random_tokens(p, arguments.prompt_tokens),
                               .ground_truth = {},
                               .data_source = {}});
  }
  std::vector<types::SampleRequest> requests;
  for (const types::Prompt& prompt : prompts.prompts)
    requests.push_back({prompt.id, prompt.tokens, 0, static_cast<std::int32_t>(arguments.n)});
  const auto load = [&] {
    train::load_published(sampler, train::calibration_prompts(prompts, 0, 0), bench.loaded.recipe.quant, quantiser);
  };
  load();

  Json best;
  std::optional<LearnerWork> work;  // of the last round
  for (std::int64_t round = 0; round < arguments.rounds; ++round) {
    base::log_info("bench step: round " + std::to_string(round + 1) + " of " + std::to_string(arguments.rounds));
    sampler.decoder.reset_stats();
    const double start_s = base::now_s();
    const auto completions =
        sampler.decoder.complete(requests, bench.sampling(), {0, static_cast<std::uint32_t>(round)});
    if (bench.loaded.recipe.rollout.free_cache_engine) sampler.decoder.release_kv();
    const double drawn_s = base::now_s();
    work.emplace(bench, completions);
    const learner::UpdateReport report = learn(learner, *work, bench.loaded.recipe, true);
    if (bench.loaded.recipe.rollout.free_cache_engine) learner.release_memory();
    const double learnt_s = base::now_s();
    publish(round + 1);
    load();
    const double published_s = base::now_s();
    train::probe_gap(sampler, learner, train::probe_requests(prompts, 0), bench.loaded.recipe, bench.sampling());
    const double end_s = base::now_s();
    if (!best.is_null() && best["step_s"].get<double>() <= end_s - start_s) continue;
    best = bench.facts();
    best["sequences"] = arguments.prompts * arguments.n;
    best["step_s"] = end_s - start_s;
    best["gen_s"] = drawn_s - start_s;
    best["learner_s"] = learnt_s - drawn_s;
    best["publish_s"] = published_s - learnt_s;
    best["publish_share"] = (published_s - learnt_s) / (end_s - start_s);
    best["gap_probe_s"] = end_s - published_s;
    best["gap_probe_share"] = (end_s - published_s) / (end_s - start_s);
    best["gen_tokens_per_s"] =
        static_cast<double>(arguments.prompts * arguments.n * arguments.new_tokens) / (drawn_s - start_s);
    add_learner_figures(best, bench, *work, learnt_s - drawn_s);
    best["k3_kl"] = report.metrics.at("mismatch/k3_kl");
    if (bench.loaded.recipe.rollout.bitwise) {  // learn() has thrown otherwise
      best["bitwise_tokens_compared"] = work->counts.response_tokens;
      best["bitwise_tokens_differing"] = 0;
    }
  }
  add_correction_costs(best, work->batches, work->counts, best["step_s"].get<double>(), world);
  finish(best, arguments);
}

constexpr int kMaxTokens = 1'048'576, kMaxSequences = 65'536;

CLI::App* add_one(CLI::App& bench, const char* name, const char* what, BenchArguments& arguments, int fewest_new = 1) {
  CLI::App* command = bench.add_subcommand(name, what);
  CLI::Option* model =
      command->add_option("--model", arguments.model_dir, "Hugging Face folder; default: random weights of --shape")
          ->check(not_empty())
          ->type_name("DIR");
  command->add_option("--shape", arguments.shape, "built-in shape")
      ->check(CLI::IsMember(shape_names()))
      ->excludes(model)
      ->type_name("NAME");
  command->add_option("--prompt", arguments.prompt_tokens, "prompt tokens")
      ->check(between(1, kMaxTokens))
      ->type_name("INT");
  command->add_option("--new", arguments.new_tokens, "new tokens a sequence")
      ->check(between(fewest_new, kMaxTokens))
      ->type_name("INT");
  command->add_option("--rounds", arguments.rounds, "rounds; the best counts")
      ->check(between(1, 1'000'000))
      ->type_name("INT");
  add_overrides(*command, arguments.overrides);
  command->add_flag("--json", arguments.json, "print one JSON object, on the last line");
  return command;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* bench =
      app.add_subcommand("bench", "measure decode, learner, a whole step, the tokenizer or the GPU's products");
  bench->require_subcommand(1);
  bench->option_defaults()->always_capture_default();
  // The first new token comes out of the prefill: what decoding takes shows from the second on.
  CLI::App* decode = add_one(*bench, "decode", "decode speed: B distinct prompts, prefill excluded", *arguments, 2);
  decode->add_option("--batch", arguments->batch, "sequences")->check(between(1, kMaxSequences))->type_name("INT");
  decode->add_option("--vocab", arguments->vocab_size, "vocabulary of the built-in shape")
      ->check(between(2, kMaxTokens))
      ->excludes(decode->get_option("--model"))
      ->type_name("INT");
  decode
      ->add_option("--logit-tile", arguments->logit_tile_tokens,
                   "tokens of the vocabulary whose logits exist at once, a multiple of 256; changes no draw")
      ->check(between(256, kMaxTokens))
      ->check(CLI::Validator(
          [](const std::string& text) {
            return std::stoll(text) % 256 == 0 ? std::string() : "must be a multiple of 256";
          },
          ""))
      ->type_name("INT");
  decode->callback(
      [&action, arguments] { action = [arguments](dist::Collectives& world) { bench_decode(*arguments, world); }; });
  CLI::App* learner = add_one(*bench, "learner", "forward, backward and update of prompts x n sequences", *arguments);
  learner->callback(
      [&action, arguments] { action = [arguments](dist::Collectives& world) { bench_learner(*arguments, world); }; });
  CLI::App* step = add_one(*bench, "step", "a whole GRPO step: draw, learn, publish, probe the gap", *arguments);
  step->callback(
      [&action, arguments] { action = [arguments](dist::Collectives& world) { bench_step(*arguments, world); }; });
  add_bench_tokenizer(*bench, action);
  add_bench_products(*bench, action);
  add_bench_attention(*bench, action);
  add_bench_ticks(*bench, action);
  for (CLI::App* command : {learner, step}) {
    command->add_option("--prompts", arguments->prompts, "prompts")->check(between(1, kMaxSequences))->type_name("INT");
    command->add_option("--n", arguments->n, "samples a prompt")->check(between(1, kMaxSequences))->type_name("INT");
  }
}

}  // namespace qrl::app
