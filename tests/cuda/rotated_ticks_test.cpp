// Tests ticks whose matrices and their inputs are rotated (quant/rotation.h), against the CPU's decoder on the same
// snapshot.
#include <cmath>

#include "engine_fixtures.h"
#include "support/models.h"

namespace {

using namespace qrl;
using namespace qrl::cuda::test;

/// Returns a model whose matrices all have inputs of whole blocks, whatever the block.
model::ModelConfig config_of_blocks() {
  return qrl::test::model_config(model::Family::qwen3, {67, 128, 2, 4, 2, 32, 128, 512},
                                 qrl::test::parts_of(model::Family::qwen3, false));
}

types::SamplingParams few_tokens() {
  types::SamplingParams params;
  params.max_new_tokens = 3;
  return params;
}

/// Counts tokens that two decoders sampled after the same ones.
struct Agreement {
  int tokens = 0, same_tokens = 0;
  double squares = 0;  ///< of differences of same tokens' log-probs
};
Agreement agreement_of(const std::vector<types::Completion>& a, const std::vector<types::Completion>& b) {
  REQUIRE(a.size() == b.size());
  Agreement all;
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].tokens.size() == b[i].tokens.size());
    for (std::size_t t = 0; t < a[i].tokens.size(); ++t) {
      ++all.tokens;
      if (a[i].tokens[t] != b[i].tokens[t]) break;
      ++all.same_tokens;
      const double apart = static_cast<double>(a[i].sampler_logprobs[t]) - b[i].sampler_logprobs[t];
      all.squares += apart * apart;
    }
  }
  return all;
}

}  // namespace

TEST_CASE("rotated ticks: tokens and log-probs are the CPU's, in every format and block, with and without adapters") {
  if (!find_device()) return;
  const model::ModelConfig config = config_of_blocks();
  const Prompts given = prompts();
  const std::span<const types::SampleRequest> requests(&given.requests[1], 1);
  const DecoderOptions options = options_of(KvFormat::bf16);
  int tokens = 0, same_tokens = 0;
  for (int i = 0; i < quant::kNumFormats; ++i) {
    const auto format = static_cast<Format>(i);
    if (!quant::spec(format).has_weight_scales()) continue;
    for (const std::int64_t block : quant::kRotationBlocks) {
      for (const bool has_adapters : {false, true}) {
        model::SnapshotFormats formats = has_adapters ? with_adapters(format) : model::SnapshotFormats(format);
        formats.rotation = {block};
        const auto snapshot = has_adapters
                                  ? publish_adapted(config, formats, false)
                                  : decoder::test::publish(config, decoder::test::tiny_weights(config), formats);
        REQUIRE(snapshot->layer(1).o.rotation.block == block);
        decoder::Decoder here(config, options),
            there(config, options,
                  decoder::make_device_backend(config, options, make_engine(config, options, Gemms::f32)));
        here.load(*snapshot);
        there.load(*snapshot);
        const Agreement found =
            agreement_of(there.complete(requests, few_tokens(), {7, 2}), here.complete(requests, few_tokens(), {7, 2}));
        const double rms = std::sqrt(found.squares / found.same_tokens);
        CAPTURE(quant::name(format), block, has_adapters, found.tokens, found.same_tokens, rms);
        // Another order of sums moves some activation over a tie to the next quantized value.
        CHECK(found.same_tokens * 10 >= found.tokens * 6);
        CHECK(rms < 0.05);
        tokens += found.tokens;
        same_tokens += found.same_tokens;
      }
    }
  }
  CAPTURE(tokens, same_tokens);
  CHECK(same_tokens * 100 >= tokens * 95);
}
