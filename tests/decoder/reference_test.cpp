// Kernel error and format error of the whole forward, apart: the decoder against an fp64 forward of the same stored
// weights, and that forward in a low-bit format against itself in fp32.
#include "decoder/reference.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "decoder/fixtures.h"
#include "support/catch.h"

namespace {

using namespace qrl;
using namespace qrl::decoder::test;

struct Distance {
  double max_abs = 0, rms = 0;
};

template <class A, class B>
Distance distance(const std::vector<A>& got, const std::vector<B>& want) {
  REQUIRE(got.size() == want.size());
  Distance d;
  double squares = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    d.max_abs = difference > d.max_abs || std::isnan(difference) ? difference : d.max_abs;
    squares += difference * difference;
  }
  d.rms = std::sqrt(squares / static_cast<double>(got.size()));
  return d;
}

std::vector<types::TokenId> random_tokens(int count) {
  base::RandomStream random(2, base::RandomPurpose::test, 0);
  std::vector<types::TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<types::TokenId>(random.below(67)));
  return tokens;
}

}  // namespace

TEST_CASE("logits are those of an fp64 forward of the same stored weights, in every format, family and ISA") {
  const auto tokens = random_tokens(40);
  for (const model::Family family : {model::Family::qwen3, model::Family::qwen2, model::Family::llama}) {
    const model::ModelConfig config = tiny_config(family);
    const model::Weights weights = tiny_weights(config);
    const auto exact = reference_logits(*publish(config, weights, quant::Format::f32), tokens);
    const double size = distance(exact, std::vector<double>(exact.size())).rms;
    for (const quant::Format format : {quant::Format::f32, quant::Format::bf16, quant::Format::int8}) {
      const auto snapshot = publish(config, weights, format);
      const auto want = reference_logits(*snapshot, tokens);
      const Distance format_error = distance(want, exact);
      on_every_isa([&](ops::Isa isa) {
        CAPTURE(static_cast<int>(family), quant::name(format), ops::name(isa), size, format_error.rms);
        const Distance kernel_error = distance(teacher_forced_logits(*snapshot, tokens, {}), want);
        CAPTURE(kernel_error.max_abs, kernel_error.rms);
        std::printf("%d %s %s size %.3f format %.5f kernel max %.6f rms %.6f\n", (int)family, quant::name(format).data(), ops::name(isa).data(), size, format_error.rms, kernel_error.max_abs, kernel_error.rms);
      });
    }
  }
}
