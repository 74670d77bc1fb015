// Tests the conversion of a recipe's words for number formats to those of model, decoder and learner.
#include "train/plan/formats.h"

#include <map>
#include <optional>
#include <set>

#include "config/support.h"
#include "decoder/cpu/teacher_forcing.h"
#include "dist/collectives.h"
#include "learner/support.h"
#include "train/plan/options.h"
#include "train/policy/quantizer.h"
#include "train/policy/sampler.h"
#include "train/prompts/prompts.h"

using namespace qrl;
using quant::Format;
using quant::KvFormat;

namespace {

/// Returns a recipe with these overrides; null if its rules refuse it.
std::optional<train::Recipe> recipe_of(const test::Overrides& overrides) {
  try {
    return test::read("trainer: {}", overrides);
  } catch (const base::Error& error) {
    REQUIRE(error.kind() == base::ErrorKind::input);
    return std::nullopt;
  }
}

struct Words {
  std::string weights, activations, granularity;
  friend auto operator<=>(const Words&, const Words&) = default;
};

/// Maps every combination that a recipe may have, as in docs and `--help`, to its format.
const std::map<Words, Format> kFormats = {
    {{"fp32", "auto", "auto"}, Format::f32},
    {{"bf16", "auto", "auto"}, Format::bf16},
    {{"bf16", "bf16", "auto"}, Format::bf16},
    {{"int8", "auto", "auto"}, Format::int8},
    {{"int8", "int8", "auto"}, Format::int8},
    {{"fp8_e4m3", "auto", "auto"}, Format::fp8_channel},
    {{"fp8_e4m3", "auto", "tensor"}, Format::fp8_tensor},
    {{"fp8_e4m3", "auto", "channel_token"}, Format::fp8_channel},
    {{"fp8_e4m3", "auto", "block128"}, Format::fp8_block128},
    {{"fp8_e4m3", "fp8_e4m3", "auto"}, Format::fp8_channel},
    {{"fp8_e4m3", "fp8_e4m3", "tensor"}, Format::fp8_tensor},
    {{"fp8_e4m3", "fp8_e4m3", "channel_token"}, Format::fp8_channel},
    {{"fp8_e4m3", "fp8_e4m3", "block128"}, Format::fp8_block128},
    {{"int4", "auto", "auto"}, Format::int4},
    {{"int4", "bf16", "auto"}, Format::int4},
    {{"int4", "int8", "auto"}, Format::int4_int8},
    {{"int4", "fp8_e4m3", "auto"}, Format::int4_fp8},
};

test::Overrides overrides_of(const Words& words) {
  return {"quant.rollout.weights=" + words.weights, "quant.rollout.activations=" + words.activations,
          "quant.rollout.granularity=" + words.granularity};
}

/// Returns the format that kv_cache auto selects.
KvFormat automatic_kv(Format format, bool bitwise = false) {
  const bool has_int8_activations = format == Format::int8 || format == Format::int4_int8;
  return format == Format::f32 ? KvFormat::f32 : has_int8_activations && bitwise ? KvFormat::int8 : KvFormat::bf16;
}

}  // namespace

TEST_CASE("weight formats: every combination of words becomes its format, or is refused") {
  for (const std::string weights : {"fp32", "bf16", "int8", "fp8_e4m3", "int4"}) {
    for (const std::string activations : {"auto", "bf16", "int8", "fp8_e4m3"}) {
      for (const std::string granularity : {"auto", "tensor", "channel_token", "block128"}) {
        const Words words{weights, activations, granularity};
        CAPTURE(weights, activations, granularity);
        const auto recipe = recipe_of(overrides_of(words));
        const auto want = kFormats.find(words);
        REQUIRE(recipe.has_value() == (want != kFormats.end()));
        if (recipe) CHECK(quant::name(train::snapshot_formats(recipe->quant).linear) == quant::name(want->second));
      }
    }
  }
}

TEST_CASE("int4: words for groups and scales, become the format and the rule") {
  for (const auto& [size, format] : std::map<std::string, Format>{{"auto", Format::int4_int8},
                                                                  {"128", Format::int4_int8},
                                                                  {"64", Format::int4_int8_g64},
                                                                  {"32", Format::int4_int8_g32}}) {
    const auto recipe = recipe_of({"quant.rollout.weights=int4", "quant.rollout.activations=int8",
                                   "quant.rollout.group_size=" + size, "quant.rollout.scales=least_squares"});
    REQUIRE(recipe);
    CHECK(train::snapshot_formats(recipe->quant).linear == format);
    CHECK(train::snapshot_formats(recipe->quant).scale_rule == quant::ScaleRule::least_squares);
  }
  const auto plain = recipe_of({"quant.rollout.weights=int4"});
  REQUIRE(plain);
  CHECK(plain->quant.group_size == train::GroupSize::inputs128);
  CHECK(train::snapshot_formats(plain->quant).scale_rule == quant::ScaleRule::largest);
  CHECK_FALSE(recipe_of({"quant.rollout.weights=int8", "quant.rollout.group_size=64"}));
  CHECK_FALSE(recipe_of({"quant.rollout.weights=int8", "quant.rollout.scales=largest"}));
  CHECK_FALSE(recipe_of({"quant.rollout.weights=int4", "quant.rollout.group_size=48"}));
}

TEST_CASE(
    "KV formats: every word becomes its format, also for the learner, and auto follows activations and equal bits") {
  const std::map<std::string, KvFormat> named = {
      {"fp32", KvFormat::f32}, {"bf16", KvFormat::bf16}, {"int8", KvFormat::int8}, {"fp8_e4m3", KvFormat::fp8_e4m3}};
  const auto check = [](const test::Overrides& overrides, KvFormat want) {
    const auto recipe = recipe_of(overrides);
    REQUIRE(recipe);
    CHECK(quant::name(train::kv_format(recipe->quant)) == quant::name(want));
    CHECK(train::learner_options(*recipe).numerics.kv_format == want);
  };
  for (const auto& [words, format] : kFormats) {
    CAPTURE(words.weights, words.activations, words.granularity);
    test::Overrides overrides = overrides_of(words);
    check(overrides, automatic_kv(format));
    overrides.emplace_back("quant.rollout.kv_cache=auto");
    check(overrides, automatic_kv(format));
    test::Overrides equal = overrides;
    equal.insert(equal.end(), {"quant.learner.forward=low_bit", "rollout.bitwise=true"});
    check(equal, automatic_kv(format, true));
    for (const auto& [word, kv] : named) {
      CAPTURE(word);
      overrides.back() = "quant.rollout.kv_cache=" + word;
      check(overrides, kv);
    }
  }
}

TEST_CASE("fp32 lm_head: applies to sampler and learner, and ignored layers reach the snapshot") {
  const model::ModelConfig config = test::tiny_config();
  for (const auto& [word, is_f32] : {std::pair{"auto", false}, {"fp32", true}}) {
    const auto recipe = recipe_of({std::string("quant.rollout.lm_head=") + word, "quant.rollout.ignore=[down_proj]"});
    REQUIRE(recipe);
    CHECK(train::learner_options(*recipe).numerics.f32_lm_head == is_f32);
    const model::Snapshot snapshot(config, train::snapshot_formats(recipe->quant));
    CHECK(snapshot.lm_head().format == (is_f32 ? Format::f32 : Format::bf16));
    CHECK(snapshot.layer(1).down.format == Format::bf16);
    CHECK(snapshot.layer(1).o.format == Format::int8);
  }
}

TEST_CASE("int8 lm_head: applies to the sampler only") {
  const auto recipe = recipe_of({"quant.rollout.lm_head=int8"});
  REQUIRE(recipe);
  CHECK(train::learner_options(*recipe).numerics.own_lm_head);
  CHECK_FALSE(train::learner_options(*recipe).numerics.f32_lm_head);
  CHECK_FALSE(train::learner_options(*recipe_of({})).numerics.own_lm_head);
  for (const char* weights : {"int8", "int4", "bf16", "fp8_e4m3"}) {
    const auto each = recipe_of({"quant.rollout.lm_head=int8", std::string("quant.rollout.weights=") + weights});
    REQUIRE(each);
    const model::Snapshot snapshot(test::tiny_config(), train::snapshot_formats(each->quant));
    CHECK(snapshot.lm_head().format == Format::int8);
  }
}

TEST_CASE("granularity: tensor, channel and block scales give three different roundings") {
  model::ModelConfig config = test::tiny_config();
  config.intermediate_size = 150;  // more than a block
  const model::Weights weights = test::tiny_weights(config);
  const base::Buffer& up = weights.at("model.layers.0.mlp.up_proj.weight");
  const std::span<const float> values(up.as<float>(), static_cast<std::size_t>(up.shape().numel()));
  std::set<std::vector<float>> different;
  for (const auto& [word, format] : {std::pair{"tensor", Format::fp8_tensor},
                                     {"channel_token", Format::fp8_channel},
                                     {"block128", Format::fp8_block128}}) {
    CAPTURE(word);
    const auto recipe = recipe_of({"quant.rollout.weights=fp8_e4m3", std::string("quant.rollout.granularity=") + word});
    REQUIRE(recipe);
    model::Snapshot snapshot(config, train::snapshot_formats(recipe->quant));
    snapshot.publish(model::views(weights), 0);
    std::vector<float> held(values.size()), want(values.size());
    ops::unpack_rows(snapshot.layer(0).gate_up, config.intermediate_size, config.intermediate_size, held.data());
    quant::round_weights(format, values, config.hidden_size, want);
    CHECK(held == want);
    different.insert(held);
  }
  CHECK(different.size() == 3);
}

TEST_CASE("fp8 KV scales: percentile and margin of the recipe determine them after a publish") {
  const model::ModelConfig config = test::tiny_config();
  const model::Weights weights = test::tiny_weights(config);
  const std::vector<std::vector<types::TokenId>> prompts = {test::random_sequence(1, 30, 0, 37).tokens,
                                                            test::random_sequence(2, 20, 0, 37).tokens};
  const auto world = dist::make_solo();
  const auto scales = [&](const test::Overrides& settings) {
    test::Overrides overrides = {"quant.rollout.kv_cache=fp8_e4m3", "data.max_response_length=16"};
    overrides.insert(overrides.end(), settings.begin(), settings.end());
    const auto recipe = recipe_of(overrides);
    REQUIRE(recipe);
    train::Sampler sampler(config, *recipe, *world, 40);
    sampler.snapshot.publish(model::views(weights), 3);
    train::QuantizerState quantizer;
    train::load_published(sampler, prompts, recipe->quant, quantizer);
    const decoder::KvScales made = sampler.decoder.kv_scales();
    CHECK(made.version == 3);
    const decoder::KvScales want =
        decoder::calibrate_kv(sampler.snapshot, prompts, {recipe->quant.kv_percentile, recipe->quant.kv_margin});
    CHECK(made.keys_LK == want.keys_LK);
    CHECK(made.values_LK == want.values_LK);
    return made;
  };
  const decoder::KvScales usual = scales({}), half = scales({"quant.kv_calibration.percentile=50"}),
                          wide = scales({"quant.kv_calibration.margin=4"});
  for (std::size_t i = 0; i < usual.keys_LK.size(); ++i) {
    CHECK(half.keys_LK[i] < 0.5F * usual.keys_LK[i]);  // of normal values: 0.67 σ and 3.3 σ
    CHECK(half.values_LK[i] < 0.5F * usual.values_LK[i]);
    CHECK(test::close(wide.keys_LK[i], 2 * usual.keys_LK[i], 0, 1e-6));  // 4 and 2
    CHECK(test::close(wide.values_LK[i], 2 * usual.values_LK[i], 0, 1e-6));
  }
}

TEST_CASE("calibration prompts: from the set, chosen by seed and number of prompts taken") {
  train::PromptSet set;
  for (types::TokenId i = 0; i < 100; ++i) set.prompts.push_back({.tokens = {i, 7}});
  const auto drawn = train::calibration_prompts(set, 5, 64);
  CHECK(drawn == train::calibration_prompts(set, 5, 64));
  CHECK(drawn != train::calibration_prompts(set, 6, 64));
  CHECK(drawn != train::calibration_prompts(set, 5, 128));
  CHECK(train::calibration_prompts(set, 6, 64) != train::calibration_prompts(set, 6, 128));
  CHECK(std::set(drawn.begin(), drawn.end()).size() > 8);  // of 16, drawn with replacement
  for (const auto& tokens : drawn) CHECK((tokens.size() == 2 && tokens[0] >= 0 && tokens[0] < 100 && tokens[1] == 7));
}
