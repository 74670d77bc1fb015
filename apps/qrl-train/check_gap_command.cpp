#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "commands.h"
#include "decoder/cpu/teacher_forcing.h"
#include "given_prompts.h"
#include "learner/learner.h"
#include "loaded_sampler.h"
#include "ops/sample.h"
#include "report/rules.h"
#include "rollout/rollout.h"
#include "train/plan/formats.h"
#include "train/plan/machine.h"
#include "train/plan/options.h"
#include "train/policy/policy.h"
#include "train/policy/quantizer.h"
#include "train/policy/sampler.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"
#include "train/step/gap_probe.h"

namespace qrl::app {

namespace {

constexpr std::int32_t kGapSamples = 4;  // per prompt
constexpr std::int32_t kGapTokens = 64;  // per sample
constexpr const char* kGapPrompts[] = {
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. How many clips did "
    "Natalia sell altogether in April and May?",
    "Write two sentences about rain.", "What is 17 + 25?", "Explain in a few words why the sky is blue."};

struct GapArguments {
  std::string model;
  std::uint64_t seed = 0;
  bool all = false;
};

struct Setting {
  const char* name;
  std::vector<std::string> keys;  ///< KEY=VALUE; a key without a dot is in quant.rollout
  bool is_usual = true;           ///< false: measured only with --all
};

const std::vector<Setting>& gap_settings() {
  static const std::vector<Setting> kSettings = {
      {"bf16", {"weights=bf16"}},
      {"int8", {"rotation=none", "kv_cache=bf16"}},
      {"int8 rotated", {"rotation=hadamard", "kv_cache=bf16"}},
      {"int8 rotated, int8 KV", {"rotation=hadamard", "kv_cache=int8"}},
      {"fp8 channel_token", {"weights=fp8_e4m3", "kv_cache=bf16"}},
      {"int4", {"weights=int4", "rotation=none"}},
      {"int8 rotated, low_bit", {"rotation=hadamard", "kv_cache=bf16", "quant.learner.forward=low_bit"}},
      {"int8 rotated, bitwise",
       {"rotation=hadamard", "kv_cache=bf16", "quant.learner.forward=low_bit", "rollout.bitwise=true"}},
      {"bf16, int8 lm_head", {"weights=bf16", "lm_head=int8"}, false},
      {"int8 rotated, int8 lm_head", {"rotation=hadamard", "kv_cache=bf16", "lm_head=int8"}, false},
      {"int8, int8 KV", {"rotation=none", "kv_cache=int8"}, false},
      {"int8 rotated by 32", {"rotation=hadamard", "rotation_block=32", "kv_cache=bf16"}, false},
      {"int8 rotated by 128", {"rotation=hadamard", "rotation_block=128", "kv_cache=bf16"}, false},
      {"fp8 channel_token rotated", {"weights=fp8_e4m3", "rotation=hadamard", "kv_cache=bf16"}, false},
      {"fp8 block128", {"weights=fp8_e4m3", "granularity=block128", "kv_cache=bf16"}, false},
      {"int4 rotated", {"weights=int4", "rotation=hadamard"}, false},
      {"int4 int8", {"weights=int4", "activations=int8", "rotation=none", "kv_cache=bf16"}, false},
      {"int4 int8 rotated", {"weights=int4", "activations=int8", "rotation=hadamard", "kv_cache=bf16"}, false},
      {"int4, least squares", {"weights=int4", "scales=least_squares"}, false},
      {"int4 by 64", {"weights=int4", "group_size=64"}, false},
      {"int4 by 64, least squares", {"weights=int4", "group_size=64", "scales=least_squares"}, false},
      {"int4 by 32", {"weights=int4", "group_size=32"}, false},
      {"int4 by 32, least squares", {"weights=int4", "group_size=32", "scales=least_squares"}, false},
      {"int4, low_bit", {"weights=int4", "quant.learner.forward=low_bit"}, false},
      {"int4 by 32, least squares, low_bit",
       {"weights=int4", "group_size=32", "scales=least_squares", "quant.learner.forward=low_bit"},
       false},
      {"int8, low_bit", {"rotation=none", "kv_cache=bf16", "quant.learner.forward=low_bit"}, false},
      {"int8 rotated, fake_quant", {"rotation=hadamard", "kv_cache=bf16", "quant.learner.forward=fake_quant"}, false},
      {"int4 rotated, low_bit", {"weights=int4", "rotation=hadamard", "quant.learner.forward=low_bit"}, false},
      {"int4 rotated, bitwise",
       {"weights=int4", "rotation=hadamard", "quant.learner.forward=low_bit", "rollout.bitwise=true"},
       false},
  };
  return kSettings;
}

train::Recipe recipe_of_setting(const Setting& setting, std::uint64_t seed) {
  const std::string own = "{trainer: {seed: " + std::to_string(seed) +
                          "}, data: {max_response_length: " + std::to_string(kGapTokens) +
                          "}, rollout: {bitwise: false}, quant: {learner: {forward: bf16}}}";
  std::vector<std::string> overrides;
  for (const std::string& key : setting.keys)
    overrides.push_back(key.find('.') < key.find('=') ? key : "quant.rollout." + key);
  return train::parse_recipe(train::keys(), own, "check gap", {}, overrides, false, train::RecipeUse::sampling).recipe;
}

struct Drawn {
  std::vector<GivenPrompt> prompts;
  std::vector<types::Completion> samples;
  const std::vector<types::TokenId>& prompt_of(std::size_t sample) const {
    return prompts[sample / kGapSamples].tokens;
  }
};

/// Samples with bf16 weights. All settings are measured on these samples.
Drawn draw(const train::Policy& policy, std::uint64_t seed, dist::Collectives& world) {
  train::Recipe recipe = recipe_of_setting(gap_settings().front(), seed);
  Drawn drawn;
  for (const char* text : kGapPrompts) drawn.prompts.push_back({text, "", "check gap", {}});
  encode(drawn.prompts, recipe.data, policy);
  recipe.rollout.max_num_seqs = std::ssize(drawn.prompts) * kGapSamples;
  train::Sampler sampler(policy.config, recipe, world, longest_of(drawn.prompts), {}, &policy.tokenizer);
  sampler.snapshot.publish(policy.weights, 0);
  train::QuantizerState none;
  train::load_published(sampler, {}, recipe.quant, none);
  std::vector<types::SampleRequest> requests;
  for (const GivenPrompt& prompt : drawn.prompts) requests.push_back({requests.size(), prompt.tokens, 0, kGapSamples});
  drawn.samples = sampler.decoder.complete(requests, train::train_sampling(recipe, policy.config, policy.tokenizer),
                                           {recipe.trainer.seed, 0});
  return drawn;
}

void score_by_sampler(const model::Snapshot& snapshot, quant::KvFormat kv, Drawn& drawn) {
  const std::int64_t vocab_size = snapshot.config().vocab_size;
  for (std::size_t i = 0; i < drawn.samples.size(); ++i) {
    types::Completion& sample = drawn.samples[i];
    std::vector<types::TokenId> tokens = drawn.prompt_of(i);
    const std::size_t first = tokens.size() - 1;
    tokens.insert(tokens.end(), sample.tokens.begin(), sample.tokens.end() - 1);
    const std::vector<float> logits = decoder::forced_logits(snapshot, tokens, {.kv_format = kv});
    for (std::size_t t = 0; t < sample.tokens.size(); ++t) {
      const float* row = logits.data() + static_cast<std::int64_t>(first + t) * vocab_size;
      sample.sampler_logprobs[t] = ops::logprob(row, vocab_size, 1.0F, sample.tokens[t]);
    }
  }
}

std::vector<types::MicroBatch> packed_samples(const Drawn& drawn) {
  std::vector<rollout::PackItem> items;
  for (std::size_t i = 0; i < drawn.samples.size(); ++i)
    items.push_back(rollout::sampled_item(drawn.prompt_of(i), drawn.samples[i], 0));
  constexpr std::int64_t kMostTokens = 4096;
  return rollout::pack(items, kMostTokens);
}

struct GapRow {
  train::GapSums sums;
  std::size_t weight_bytes = 0;
};

/// Measures each setting with its own sampler and learner. All bf16 learners share one set of log-probs.
class GapTable {
 public:
  GapTable(const train::Policy& policy, Drawn drawn, dist::Collectives& world)
      : policy_(policy), drawn_(std::move(drawn)), world_(world) {}

  GapRow measure(const train::Recipe& recipe) {
    learner::LearnerOptions options = train::learner_options(recipe);
    options.trainable = options.shard_optimizer = false;
    const bool reads_snapshot = options.numerics.forward != learner::LearnerForward::bf16;
    std::optional<learner::Learner> learner;
    if (reads_snapshot || plain_.empty()) learner.emplace(policy_.config, policy_.weights, options, world_);
    model::Snapshot snapshot(policy_.config, train::sampler_formats(recipe));
    if (reads_snapshot) learner->publish(snapshot, 0);
    else snapshot.publish(policy_.weights, 0);
    score_by_sampler(snapshot, train::kv_format(recipe.quant), drawn_);
    const std::vector<types::MicroBatch> batches = packed_samples(drawn_);
    std::vector<std::vector<float>> own;
    if (learner) {
      std::vector<std::vector<float>>& to = reads_snapshot ? own : plain_;
      for (const types::MicroBatch& batch : batches) to.push_back(learner->score(batch, {}).logprobs);
    }
    const std::vector<std::vector<float>>& learned = reads_snapshot ? own : plain_;
    GapRow row{{}, snapshot.num_bytes()};
    for (std::size_t b = 0; b < batches.size(); ++b) {
      for (std::size_t t = 0; t < learned[b].size(); ++t) {
        if (batches[b].loss_mask[t] != 0) row.sums.add(learned[b][t], batches[b].sampler_logprobs[t]);
      }
    }
    return row;
  }

 private:
  const train::Policy& policy_;
  Drawn drawn_;
  dist::Collectives& world_;
  std::vector<std::vector<float>> plain_;  ///< a bf16 learner's log-probs, per micro-batch
};

void print_gap(const Setting& setting, const GapRow& row) {
  const train::GapSums& sums = row.sums;
  std::printf("%-27s %8.1f %9.2g %9.2g %7.4f %9.4f\n", setting.name, static_cast<double>(row.weight_bytes) / 1e6,
              sums.k3(), sums.mean_abs(), sums.ess(), sums.share_beyond_2());
  std::fflush(stdout);
}

/// Recommends a usual setting with a bf16 learner and a k3 below the bound. Among settings within 2 % of the fewest
/// bytes, chooses the setting with the least k3.
void recommend(const std::vector<std::pair<const Setting*, GapRow>>& rows) {
  constexpr double kAboutTheSame = 1.02;
  const double bound = report::rule("sampler and learner are far apart").bound;
  const auto may_be = [&](const Setting& setting, const GapRow& row) {
    const bool is_plain = std::ranges::none_of(
        setting.keys, [](const std::string& key) { return key.starts_with("quant.learner.forward="); });
    return setting.is_usual && is_plain && row.sums.k3() < bound;
  };
  double bytes = std::numeric_limits<double>::infinity();
  for (const auto& [setting, row] : rows)
    if (may_be(*setting, row)) bytes = std::min(bytes, static_cast<double>(row.weight_bytes));
  const Setting* best = nullptr;
  double k3 = bound;
  for (const auto& [setting, row] : rows) {
    if (!may_be(*setting, row) || static_cast<double>(row.weight_bytes) > kAboutTheSame * bytes) continue;
    if (!(row.sums.k3() < k3)) continue;
    best = setting;
    k3 = row.sums.k3();
  }
  if (best == nullptr) {
    std::printf("no setting has a k3 below %g: use rollout.bitwise, which makes it 0 in every format\n", bound);
    return;
  }
  std::string keys;
  for (const std::string& key : best->keys)
    keys += " --set " + (key.find('.') < key.find('=') ? key : "quant.rollout." + key);
  std::printf(
      "recommended (fewest bytes with a k3 below %g): %s (%s)\nrollout.bitwise has a gap of 0 in every format\n", bound,
      best->name, keys.substr(1).c_str());
}

void check_gap(const GapArguments& arguments, dist::Collectives& world) {
  const train::Recipe plain = recipe_of_setting(gap_settings().front(), arguments.seed);
  train::set_threads(plain, world);
  const train::Policy policy = train::load_policy(given_model(arguments.model));
  Drawn drawn = draw(policy, arguments.seed, world);
  std::int64_t num_tokens = 0;
  for (const types::Completion& sample : drawn.samples) num_tokens += std::ssize(sample.tokens);
  std::printf("%s: %lld tokens in %zu samples, drawn with bf16 weights at temperature 1, seed %llu\n",
              arguments.model.c_str(), static_cast<long long>(num_tokens), drawn.samples.size(),
              static_cast<unsigned long long>(arguments.seed));
  std::printf("%-27s %8s %9s %9s %7s %9s\n", "rollouts; learner", "MB", "k3", "mean|d|", "ESS", "beyond 2");
  GapTable table(policy, std::move(drawn), world);
  std::vector<std::pair<const Setting*, GapRow>> rows;
  for (const Setting& setting : gap_settings()) {
    if (!setting.is_usual && !arguments.all) continue;
    const train::Recipe recipe = recipe_of_setting(setting, arguments.seed);
    model::SnapshotFormats formats = train::sampler_formats(recipe);
    formats.rotates_if_it_fits = true;
    if (formats.rotation && !model::fitting_rotation(policy.config, formats)) {
      std::printf("%-27s a block of %lld does not divide the input size of every matrix\n", setting.name,
                  static_cast<long long>(formats.rotation.block));
      continue;
    }
    rows.emplace_back(&setting, table.measure(recipe));
    print_gap(setting, rows.back().second);
  }
  recommend(rows);
}

}  // namespace

void add_check_gap(CLI::App& check, Action& action) {
  auto arguments = std::make_shared<GapArguments>();
  CLI::App* command = check.add_subcommand(
      "gap", "measure the gap between sampler and learner on a model's own samples, for each number format");
  command->add_option("MODEL", arguments->model, "Hugging Face folder, checkpoint, or OWNER/NAME in the Hub's cache")
      ->required();
  command->add_option("--seed", arguments->seed, "seed of the samples; default: 0")->type_name("INT");
  command->add_flag("--all", arguments->all, "measure more settings: other formats, rotation blocks and learners");
  set_work(*command, action, arguments, check_gap);
}

}  // namespace qrl::app
