// Tests the output of `dump`: the residual stream after the embedding and after each layer.
#include <algorithm>
#include <cmath>

#include "decoder/fixtures.h"
#include "support/catch.h"

namespace {

using namespace qrl;
using namespace qrl::decoder;
using namespace qrl::decoder::test;

/// Computes the logit of `token` from a row of the stream in fp64.
double logit(const model::Weights& weights, const model::ModelConfig& config, const float* x_D, std::int64_t token) {
  const std::int64_t width = config.hidden_size;
  double squares = 0, sum = 0;
  for (std::int64_t i = 0; i < width; ++i) squares += static_cast<double>(x_D[i]) * x_D[i];
  const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + config.rms_norm_eps);
  const float* head = weights.find("model.embed_tokens.weight")->second.as<float>() + token * width;  // tied
  const float* norm = weights.find("model.norm.weight")->second.as<float>();
  for (std::int64_t i = 0; i < width; ++i) sum += x_D[i] * scale * norm[i] * head[i];
  return sum;
}

}  // namespace

TEST_CASE("layer outputs: the first is the embedding, the last gives the logits, and chunks change no bit") {
  const model::ModelConfig config = tiny_config();
  const model::Weights weights = tiny_weights(config);
  const auto snapshot = publish(config, weights, quant::Format::f32);
  std::vector<types::TokenId> tokens(70);  // more than one block of rows
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<types::TokenId>((7 * i + 3) % static_cast<std::size_t>(config.vocab_size));
  const LayerOutputs whole = forced_layer_outputs(*snapshot, tokens, {.num_threads = 2});
  const LayerOutputs in_chunks = forced_layer_outputs(*snapshot, tokens, {.chunk_tokens = 9, .num_threads = 1});
  const std::vector<float> logits = forced_logits(*snapshot, tokens);
  const std::int64_t count = whole.x_LTD.shape().numel(), width = config.hidden_size;
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  REQUIRE(count == (config.num_hidden_layers + 1) * num_tokens * width);
  const float* x = whole.x_LTD.as<float>();
  CHECK(std::equal(x, x + count, in_chunks.x_LTD.as<float>()));
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    const float* embedded = snapshot->embedding_VD().as<float>() + tokens[static_cast<std::size_t>(t)] * width;
    REQUIRE(std::equal(embedded, embedded + width, x + t * width));
    const float* last = x + count - (num_tokens - t) * width;
    REQUIRE(std::abs(logit(weights, config, last, 5) - logits[static_cast<std::size_t>(t * config.vocab_size + 5)]) <
            1e-3);
  }
}
