// The learner on the sampler's tensors against the sampler's own forward pass.
#include "decoder/forced.h"
#include "learner/support.h"
#include "ops/sample.h"

using namespace qrl;

namespace {

/// Mean |difference| of log-probs, the learner's against the decoder's, over random tokens.
double gap(config::LearnerForward forward, quant::Format format) {
  model::ModelConfig config = test::tiny_config();
  learner::LearnerOptions options = test::options(config::ComputeDType::bf16);
  options.forward = forward;
  const auto world = dist::make_solo();
  learner::Learner learner(config, test::tiny_weights(config), options, *world);
  model::Snapshot snapshot(config, format);
  learner.publish(snapshot, 0);
  double total = 0;
  std::int64_t count = 0;
  for (std::uint64_t s = 0; s < 20; ++s) {
    const test::Sequence sequence = test::random_sequence(s, 4, 50, config.vocab_size);
    const std::vector<float> logits = decoder::forced_logits(snapshot, sequence.tokens);
    const types::MicroBatch batch = test::pack({sequence});
    const std::vector<float> learned = learner.score(batch, {1.0F}).logprobs;
    for (std::size_t t = 3; t + 1 < sequence.tokens.size(); ++t, ++count) {
      const float* row = logits.data() + static_cast<std::int64_t>(t) * config.vocab_size;
      double sum = 0;
      for (std::int64_t v = 0; v < config.vocab_size; ++v) sum += std::exp(static_cast<double>(row[v]));
      const double drawn = static_cast<double>(row[sequence.tokens[t + 1]]) - std::log(sum);
      total += std::abs(static_cast<double>(learned[t]) - drawn);
    }
  }
  return total / static_cast<double>(count);
}

}  // namespace

TEST_CASE("log-probs of a learner on the sampler's tensors are the sampler's, up to codes near a tie") {
  using config::LearnerForward;
  // Sums of another order move a value across a rounding boundary now and then: rarely in bf16, a code in int8.
  CHECK(gap(LearnerForward::low_bit, quant::Format::bf16) < 1e-5);
  const double low_bit = gap(LearnerForward::low_bit, quant::Format::int8);
  CHECK(low_bit < 2e-4);
  CHECK(gap(LearnerForward::bf16, quant::Format::int8) > 50 * low_bit);
  // Decoded operands are rounded to bf16, which is as coarse as int8.
  CHECK(gap(LearnerForward::fake_quant, quant::Format::int8) < gap(LearnerForward::bf16, quant::Format::int8));
}

TEST_CASE("log-probs after top-k and top-p are the sampler's: both renormalise over what is left") {
  const model::ModelConfig config = test::tiny_config();
  const auto world = dist::make_solo();
  learner::Learner learner(config, test::tiny_weights(config), test::options(), *world);
  model::Snapshot snapshot(config, quant::Format::f32);
  learner.publish(snapshot, 0);
  for (const ops::DrawParams& params : {ops::DrawParams{0.7F, 0.6F, -1}, ops::DrawParams{1.0F, 1.0F, 3},
                                        ops::DrawParams{1.3F, 0.8F, 5}, ops::DrawParams{1.0F, 1.0F, -1}}) {
    CAPTURE(params.temperature, params.top_p, params.top_k);
    const test::Sequence sequence = test::random_sequence(1, 4, 50, config.vocab_size);
    const std::vector<float> logits = decoder::forced_logits(snapshot, sequence.tokens);
    types::MicroBatch batch = test::pack({sequence});
    std::vector<float> drawn(batch.tokens.size());
    for (std::size_t t = 0; t < drawn.size(); ++t) {
      const double uniform = static_cast<double>(t * 37 % 53) / 53;
      const ops::Draw draw = ops::draw(logits.data() + t * 37, config.vocab_size, params, uniform);
      batch.targets[t] = draw.token;
      drawn[t] = draw.logprob;
    }
    const std::vector<float> learned = learner.score(batch, params).logprobs;
    for (std::size_t t = 0; t < drawn.size(); ++t) {
      if (batch.loss_mask[t] != 0) CHECK(std::abs(learned[t] - drawn[t]) < 2e-5F);
    }
  }
}
