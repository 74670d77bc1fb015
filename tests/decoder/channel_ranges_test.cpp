// Tests what calibration observes, and the purpose of smoothing.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "decoder/cpu/teacher_forcing.h"
#include "decoder/fixtures.h"
#include "support/catch.h"

namespace qrl::decoder::test {

namespace {

double squared_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return sum;
}

}  // namespace

TEST_CASE("channel ranges: equal the largest normed embeddings if blocks add nothing") {
  const model::ModelConfig config = tiny_config(GENERATE(model::Family::qwen3, model::Family::qwen3_moe));
  model::Weights weights = tiny_weights(config);
  // Zeroing o_proj and down_proj keeps the residual stream equal to the embedding, which every norm then reads.
  for (auto& [name, buffer] : weights) {
    if (name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight"))
      std::fill_n(buffer.as<float>(), buffer.shape().numel(), 0.0F);
    if (name.ends_with("post_attention_layernorm.weight"))
      for (std::int64_t i = 0; i < buffer.shape().numel(); ++i)
        buffer.as<float>()[i] = 0.5F + 0.01F * static_cast<float>(i);
  }
  const auto snapshot = publish(config, weights, quant::Format::f32);
  const model::ChannelRanges ranges = channel_ranges(*snapshot, kPrompts);
  CHECK(ranges.size() == 2 * static_cast<std::size_t>(config.num_hidden_layers));
  const float* table = weights.at("model.embed_tokens.weight").as<float>();
  for (const auto& [norm, range] : ranges) {
    CAPTURE(norm);
    std::vector<double> amax(static_cast<std::size_t>(config.hidden_size), 0);
    for (const auto& prompt : kPrompts) {
      for (const types::TokenId token : prompt) {
        const float* x = table + token * config.hidden_size;
        double squares = 0;
        for (std::int64_t i = 0; i < config.hidden_size; ++i) squares += static_cast<double>(x[i]) * x[i];
        const double inverse =
            1 / std::sqrt(squares / static_cast<double>(config.hidden_size) + static_cast<double>(config.rms_norm_eps));
        for (std::size_t i = 0; i < amax.size(); ++i)
          amax[i] = std::max(amax[i], std::fabs(x[i] * inverse * weights.at(norm).as<float>()[i]));
      }
    }
    for (std::size_t i = 0; i < amax.size(); ++i) CHECK(qrl::test::close(range.as<float>()[i], amax[i], 0, 1e-6));
  }
}

TEST_CASE("channel ranges: do not depend on the number of threads") {
  const model::ModelConfig config = tiny_config();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::bf16);
  const model::ChannelRanges one = [&] {
    const ThreadsForScope threads(1);
    return channel_ranges(*snapshot, kPrompts);
  }();
  const ThreadsForScope threads(3);
  for (const auto& [norm, range] : channel_ranges(*snapshot, kPrompts)) {
    CHECK(std::equal(range.as<float>(), range.as<float>() + config.hidden_size, one.at(norm).as<float>()));
  }
  CHECK_THROWS_AS(channel_ranges(*snapshot, Sequences{}), base::Error);
}

TEST_CASE("channel ranges: a profile reduces int8's error where channels differ in size") {
  const model::ModelConfig config = tiny_config(GENERATE(model::Family::qwen3, model::Family::qwen3_5));
  model::Weights weights = tiny_weights(config);
  for (auto& [name, buffer] : weights) {
    if (!name.ends_with("layernorm.weight")) continue;
    for (std::int64_t i = 0; i < 3; ++i) buffer.as<float>()[i * 7] = 40.0F;
  }
  const auto exact = publish(config, weights, quant::Format::f32),
             plain = publish(config, weights, quant::Format::int8);
  model::Snapshot smoothed(config, quant::Format::int8);
  smoothed.use_profile(std::make_shared<const model::Int8Profile>(
      model::make_int8_profile(config, weights, channel_ranges(*exact, kPrompts))));
  smoothed.publish(model::views(weights), 0);
  const std::vector<float> want = forced_logits(*exact, kPrompts[0]);
  const double without = squared_distance(forced_logits(*plain, kPrompts[0]), want);
  const double with = squared_distance(forced_logits(smoothed, kPrompts[0]), want);
  CAPTURE(without, with);
  CHECK(with > 0);
  CHECK(with < 0.75 * without);
}

}  // namespace qrl::decoder::test
