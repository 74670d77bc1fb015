#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "decoder/cpu/teacher_forcing.h"
#include "decoder/fixtures.h"
#include "quant/format.h"
#include "quant/fp8.h"
#include "support/catch.h"

namespace qrl::decoder::test {

namespace {

/// Reads from the pages the |values| of one layer and head over all prompts.
std::vector<float> sizes_of(const model::Snapshot& snapshot, std::int64_t layer, std::int64_t head, bool keys) {
  const auto& config = snapshot.config();
  const ops::HeadShape heads{config.num_attention_heads, config.num_key_value_heads, config.head_dim};
  std::vector<float> sizes, key(static_cast<std::size_t>(heads.head_dim)), value(key.size());
  for (const auto& prompt : kPrompts) {
    const ForcedKv alone = forced_kv(snapshot, {&prompt, 1});
    for (std::size_t t = 0; t < prompt.size(); ++t) {
      ops::read_slot(heads, alone.kv.layer(layer), static_cast<std::int32_t>(t / 16), static_cast<std::int64_t>(t % 16),
                     head, key.data(), value.data());
      for (const float x : keys ? key : value) sizes.push_back(std::fabs(x));
    }
  }
  return sizes;
}

DecoderOptions fp8_options() {
  return {.max_num_seqs = 8, .kv_pages = 60, .max_model_len = 40, .kv_format = quant::KvFormat::fp8_e4m3};
}

}  // namespace

TEST_CASE("KV statistics: sequences computed together give the same values as alone, on any number of threads") {
  const auto config = tiny_config();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::int8, 7);
  const ops::HeadShape heads{config.num_attention_heads, config.num_key_value_heads, config.head_dim};
  Sequences prompts = kPrompts;
  prompts.push_back({40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55});  // fills a page to the last slot
  const auto numbers_of = [&](const ForcedKv& forced, std::size_t of, std::size_t length) {
    std::vector<float> numbers(length * static_cast<std::size_t>(config.num_hidden_layers * 2 * heads.num_kv_heads) *
                               static_cast<std::size_t>(heads.head_dim));
    float* at = numbers.data();
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      for (std::int64_t head = 0; head < heads.num_kv_heads; ++head) {
        for (std::size_t t = 0; t < length; ++t, at += 2 * heads.head_dim)
          ops::read_slot(heads, forced.kv.layer(layer), forced.pages[of][t / 16], static_cast<std::int64_t>(t % 16),
                         head, at, at + heads.head_dim);
      }
    }
    return numbers;
  };
  for (const int num_threads : {1, 2, 3}) {
    CAPTURE(num_threads);
    const ThreadsForScope threads(num_threads);
    const ForcedKv together = forced_kv(*snapshot, prompts);
    // With few rows and cached weights, each thread computes its own part.
    CHECK(together.num_parts == num_threads);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const auto alone = numbers_of(forced_kv(*snapshot, {&prompts[i], 1}), 0, prompts[i].size());
      CHECK(std::ranges::any_of(alone, [](float x) { return x != 0; }));
      CHECK(numbers_of(together, i, prompts[i].size()) == alone);
    }
  }
}

TEST_CASE("fp8 KV scales: equal bits on any number of threads and for prompts in any order") {
  const auto config = tiny_config();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::int8, 7);
  const KvScales want = calibrate_kv(*snapshot, kPrompts, {});
  for (const int num_threads : {1, 2, 3}) {
    const ThreadsForScope threads(num_threads);
    for (const Sequences& prompts : {kPrompts, Sequences(kPrompts.rbegin(), kPrompts.rend())}) {
      const KvScales scales = calibrate_kv(*snapshot, prompts, {});
      CHECK(scales.keys_LK == want.keys_LK);
      CHECK(scales.values_LK == want.values_LK);
    }
  }
}

TEST_CASE("fp8 KV scales: map the percentile, with its margin, to 448") {
  const auto config = tiny_config();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::f32, 7);
  const KvScales all = calibrate_kv(*snapshot, kPrompts, {100, 1.0});
  const KvScales half = calibrate_kv(*snapshot, kPrompts, {50, 2.0});
  CHECK(all.version == 7);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    for (std::int64_t head = 0; head < config.num_key_value_heads; ++head) {
      const auto at = static_cast<std::size_t>(layer * config.num_key_value_heads + head);
      for (const bool keys : {true, false}) {
        auto sizes = sizes_of(*snapshot, layer, head, keys);
        std::sort(sizes.begin(), sizes.end());
        const KvScales& a = all;
        CHECK(qrl::test::close((keys ? a.keys_LK : a.values_LK)[at], sizes.back() / 448, 0, 1e-6));
        CHECK(qrl::test::close((keys ? half.keys_LK : half.values_LK)[at], 2 * sizes[(sizes.size() + 1) / 2 - 1] / 448,
                               0, 1e-6));
      }
    }
  }
  CHECK_THROWS_AS(calibrate_kv(*snapshot, Sequences{}, {}), base::Error);
}

TEST_CASE("fp8 query scales: map the percentile of each kv head's queries to 448, on any number of threads") {
  const auto config = tiny_config();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::f32, 7);
  const std::int64_t width = config.q_size() / config.num_key_value_heads;
  CHECK(calibrate_kv(*snapshot, kPrompts, {}).queries_LK.empty());
  for (const int num_threads : {1, 3}) {
    const ThreadsForScope threads(num_threads);
    const KvScales scales = calibrate_kv(*snapshot, kPrompts, {.percentile = 100, .margin = 2, .queries = true});
    std::vector<float> largest(static_cast<std::size_t>(config.num_hidden_layers * config.num_key_value_heads));
    for (const auto& prompt : kPrompts) {
      const ForcedKv alone = forced_kv(*snapshot, {&prompt, 1}, true);
      REQUIRE(alone.queries);
      const base::Buffer& q_LNQ = alone.queries->q_LNQ;
      REQUIRE(q_LNQ.shape()[1] == static_cast<std::int64_t>(prompt.size()));
      for (std::int64_t i = 0; i < q_LNQ.shape().numel(); ++i) {
        const std::int64_t layer = i / (q_LNQ.shape()[1] * config.q_size()), head = i % config.q_size() / width;
        float& most = largest[static_cast<std::size_t>(layer * config.num_key_value_heads + head)];
        most = std::max(most, std::fabs(q_LNQ.as<float>()[i]));
      }
    }
    REQUIRE(scales.queries_LK.size() == largest.size());
    for (std::size_t i = 0; i < largest.size(); ++i) {
      CHECK(largest[i] > 0);
      CHECK(qrl::test::close(scales.queries_LK[i], 2 * largest[i] / 448, 0, 1e-6));
    }
  }
}

TEST_CASE("percentile: the nearest rank") {
  const auto config = tiny_config();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::f32);
  for (const double percentile : {99.9, 33.3}) {  // neither is a whole rank of 210 values
    const KvScales scales = calibrate_kv(*snapshot, kPrompts, {percentile, 1.0});
    for (const bool keys : {true, false}) {
      const auto sizes = sizes_of(*snapshot, 1, 1, keys);
      REQUIRE(sizes.size() == 210);
      const auto share_below = [&](float bound) {
        return 100.0 * static_cast<double>(std::ranges::count_if(sizes, [&](float x) { return x < bound; })) / 210;
      };
      const float put_at_448 = 448 * (keys ? scales.keys_LK : scales.values_LK).back();
      CHECK(share_below(put_at_448 * 1.00001F) >= percentile);
      CHECK(share_below(put_at_448 * 0.99999F) < percentile);
    }
  }
}

TEST_CASE("fp8 KV scales: a head of zeros has scale 1, no other head has") {
  const auto config = tiny_config();
  const model::Weights weights = tiny_weights(config);
  const std::int64_t row_size = config.hidden_size, num_zero = config.head_dim * row_size;
  std::fill_n(weights.at("model.layers.0.self_attn.v_proj.weight").as<float>() + num_zero, num_zero, 0.0F);  // head 1
  const auto snapshot = publish(config, weights, quant::Format::f32);
  const KvScales scales = calibrate_kv(*snapshot, kPrompts, {});
  REQUIRE(scales.values_LK.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK((scales.values_LK[i] == 1) == (i == 1));
    CHECK(scales.keys_LK[i] != 1);
  }
}

TEST_CASE("KV calibration: ends with an error at infinite keys") {
  const auto config = tiny_config(model::Family::qwen2);  // no norm of keys, which would rescale them
  const model::Weights weights = tiny_weights(config);
  const base::Buffer& keys = weights.at("model.layers.1.self_attn.k_proj.weight");
  std::fill_n(keys.as<float>(), config.hidden_size, 3e38F);  // one element of one head
  const auto loaded = publish(config, weights, quant::Format::f32);
  CHECK_THROWS_WITH(calibrate_kv(*loaded, kPrompts, {}), Catch::Contains("KV calibration, keys and values"));
}

TEST_CASE("fp8 KV: sampling is refused with missing scales or scales of other weights") {
  const auto config = tiny_config();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::f32);
  Decoder decoder(config, fp8_options());
  decoder.load(*snapshot);
  const types::SampleRequest request{1, kPrompts[0], 0, 2};
  const auto draw = [&] { return decoder.complete({&request, 1}, {.max_new_tokens = 8}, {}); };
  CHECK_THROWS_WITH(draw(), Catch::Contains("fp8 scales calibrated for version 0"));
  decoder.calibrate_kv(kPrompts, {});
  const auto first = draw();
  CHECK(first[0].tokens.size() == 8);
  snapshot->publish(model::views(tiny_weights(config, 2)), 1);
  CHECK_THROWS_WITH(draw(), Catch::Contains("version 1"));
  decoder.calibrate_kv(kPrompts, {});
  CHECK(draw()[0].tokens != first[0].tokens);
}

TEST_CASE("fp8 KV: stays near exact values, and scales from too few values show an error") {
  const auto config = tiny_config();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::f32);
  const auto exact = forced_logits(*snapshot, kPrompts[0]);
  const auto error_of = [&](const KvScales& scales) {
    const auto logits =
        forced_logits(*snapshot, kPrompts[0], {.kv_format = quant::KvFormat::fp8_e4m3, .kv_scales = scales});
    return quant::format_error(exact, logits);
  };
  // e4m3 has a mean rounding error of 1/40 for keys and values alike. Large weights make large scores, which amplify
  // the error of keys: 24 dB here.
  const quant::FormatError good = error_of(calibrate_kv(*snapshot, kPrompts, {}));
  CHECK(good.rms > 0);
  CHECK(good.snr_db > 20);
  CHECK(error_of(calibrate_kv(*snapshot, kPrompts, {50, 0.2})).rms > 2 * good.rms);
  // Queries in e4m3 add about the same error as keys.
  const quant::FormatError all = error_of(calibrate_kv(*snapshot, kPrompts, {.queries = true}));
  CHECK(all.rms > 1.05 * good.rms);
  CHECK(all.snr_db > 17);
}

}  // namespace qrl::decoder::test
