// Tests every fused operation against its plain composition in LibTorch, in fp64, values and gradients.
#include "learner/forward/layers.h"

#include <cmath>

#include "learner/forward/logprob.h"
#include "learner/support.h"
#include "ops/transformer.h"

namespace qrl {

using learner::Heads;
using learner::PackedRows;
using learner::Weight;
using torch::Tensor;

namespace {

constexpr double kFp32 = 2e-5;  // sums of a few hundred fp32 terms of order 1
constexpr double kBf16 = 2e-2;  // a few roundings of 2^-9

Weight weight_of(const Tensor& value) {
  return {value, torch::zeros_like(value, torch::TensorOptions().dtype(torch::kFloat32))};
}

Tensor leaf(const Tensor& x) { return x.detach().clone().set_requires_grad(true); }
Tensor double_leaf(const Tensor& x) { return x.detach().to(torch::kFloat64).set_requires_grad(true); }

/// Returns the largest difference over the larger of 1 and the largest expected value; infinite for NaN.
double error(const Tensor& got, const Tensor& want) {
  const double most = (got.to(torch::kFloat64) - want).abs().max().item<double>();
  return std::isnan(most) ? HUGE_VAL : most / std::max(1.0, want.abs().max().item<double>());
}

PackedRows packed(const std::vector<std::int32_t>& lengths) {
  PackedRows rows;
  rows.sequence_starts = {0};
  for (const std::int32_t length : lengths) {
    for (std::int32_t t = 0; t < length; ++t) {
      rows.positions.push_back(t);
      rows.tokens.push_back((7 * t + length) % 11);
    }
    rows.sequence_starts.push_back(rows.sequence_starts.back() + length);
  }
  return rows;
}

Tensor rms(const Tensor& x, const Tensor& gain, double eps) {
  return x * torch::rsqrt((x * x).mean(-1, true) + eps) * gain;
}

}  // namespace

TEST_CASE("residual sum, RMSNorm: outputs and gradients") {
  enum class Bias : std::uint8_t { none, to_add, is_in };
  for (const auto& [dtype, has_bias] :
       {std::pair{torch::kFloat32, Bias::none}, {torch::kFloat32, Bias::is_in}, {torch::kBFloat16, Bias::to_add}}) {
    for (const std::int64_t width : {1, 7, 33, 257}) {
      CAPTURE(width, dtype, has_bias);
      torch::manual_seed(1);
      const double bound = dtype == torch::kFloat32 ? kFp32 : kBf16;
      const Tensor x = leaf(torch::randn({300, width})), branch = leaf(torch::randn({300, width}).to(dtype));
      const Weight gain = weight_of(torch::randn({width}));
      const Weight bias = has_bias == Bias::none ? Weight() : weight_of(torch::randn({width}));
      const learner::Normed got = learner::add_rms_norm(x, {branch, bias, has_bias == Bias::is_in}, gain, 1e-5F, dtype);
      const Tensor d_sum = torch::randn({300, width}), d_normed = torch::randn({300, width}).to(dtype);
      const Tensor wide_x = double_leaf(x), wide_branch = double_leaf(branch), wide_gain = double_leaf(gain.value);
      const Tensor wide_bias = has_bias == Bias::to_add ? double_leaf(bias.value) : Tensor();
      const Tensor sum = has_bias == Bias::to_add ? wide_x + wide_branch + wide_bias : wide_x + wide_branch;
      const Tensor normed = rms(sum, wide_gain, 1e-5);
      CHECK(error(got.sum_ND, sum) <= kFp32);
      CHECK(error(got.normed_ND, normed) <= bound);
      CHECK(torch::equal(got.recompute_normed(), got.normed_ND));
      torch::autograd::backward({got.sum_ND, got.normed_ND}, {d_sum, d_normed});
      torch::autograd::backward({sum, normed}, {d_sum.to(torch::kFloat64), d_normed.to(torch::kFloat64)});
      CHECK(error(x.grad(), wide_x.grad()) <= 5 * kFp32);
      CHECK(error(branch.grad(), wide_branch.grad()) <= bound);
      CHECK(error(gain.gradient, wide_gain.grad()) <= 5 * kFp32);
      if (has_bias != Bias::none) CHECK(error(bias.gradient, wide_branch.grad().sum(0)) <= 5 * kFp32);
    }
  }
}

TEST_CASE("QKV: bias, norms of q and k, rotary positions") {
  for (const bool norms : {false, true}) {
    for (const std::int64_t dim : {2, 10, 34, 64}) {
      CAPTURE(norms, dim);
      torch::manual_seed(2);
      PackedRows rows = packed({7, 1, 33, 150});
      const base::Buffer table = ops::make_rope_table(200, dim, 10000);
      rows.rope_table = table.as<float>();
      const Heads heads{4, 2, dim, 1e-5F};
      const std::int64_t width = 8 * dim, n = rows.num_rows();
      learner::QkvWeights weights;
      if (norms) {
        weights.q_gain = weight_of(torch::randn({dim}));
        weights.k_gain = weight_of(torch::randn({dim}));
      } else {
        weights.bias = weight_of(torch::randn({width}));
      }
      const Tensor qkv = leaf(torch::randn({n, width}));
      const learner::Recomputable result = learner::qkv_transform(qkv, rows, heads, weights, false);
      const Tensor got = result.value;
      CHECK(torch::equal(result.recompute(), got));

      const Tensor wide = double_leaf(qkv), bias = norms ? Tensor() : double_leaf(weights.bias.value);
      const Tensor q_gain = norms ? double_leaf(weights.q_gain.value) : Tensor();
      const Tensor k_gain = norms ? double_leaf(weights.k_gain.value) : Tensor();
      const Tensor biased = (norms ? wide : wide + bias).view({n, 8, dim});
      const Tensor positions = torch::tensor(std::vector<std::int64_t>(rows.positions.begin(), rows.positions.end()));
      const Tensor powers = torch::arange(0, dim, 2, torch::kFloat64) / static_cast<double>(dim);
      const Tensor angles = positions.to(torch::kFloat64).unsqueeze(1) / torch::pow(10000.0, powers);
      const auto turn = [&](const Tensor& x, const Tensor& gain) {
        const Tensor y = gain.defined() ? rms(x, gain, 1e-5) : x;
        const Tensor low = y.slice(2, 0, dim / 2), high = y.slice(2, dim / 2);
        const Tensor cosine = angles.cos().unsqueeze(1), sine = angles.sin().unsqueeze(1);
        return torch::cat({low * cosine - high * sine, high * cosine + low * sine}, 2);
      };
      const Tensor want =
          torch::cat({turn(biased.slice(1, 0, 4), q_gain), turn(biased.slice(1, 4, 6), k_gain), biased.slice(1, 6)}, 1)
              .reshape({n, width});
      CHECK(error(got, want) <= kFp32);
      const Tensor d = torch::randn({n, width});
      got.backward(d);
      want.backward(d.to(torch::kFloat64));
      CHECK(error(qkv.grad(), wide.grad()) <= 5 * kFp32);
      if (norms) {
        CHECK(error(weights.q_gain.gradient, q_gain.grad()) <= 5 * kFp32);
        CHECK(error(weights.k_gain.gradient, k_gain.grad()) <= 5 * kFp32);
      } else {
        CHECK(error(weights.bias.gradient, bias.grad()) <= 5 * kFp32);
      }
    }
  }
}

TEST_CASE("QKV: k and v are rounded as in a bf16 cache, q is not") {
  torch::manual_seed(3);
  PackedRows rows = packed({9});
  const base::Buffer table = ops::make_rope_table(16, 10, 10000);
  rows.rope_table = table.as<float>();
  const Tensor out =
      learner::qkv_transform(torch::randn({9, 80}).to(torch::kBFloat16), rows, {4, 2, 10, 0}, {}, false).value;
  const Tensor rounded = out.to(torch::kBFloat16).to(torch::kFloat32);
  CHECK(torch::equal(out.slice(1, 40), rounded.slice(1, 40)));
  CHECK_FALSE(torch::equal(out.slice(1, 0, 40), rounded.slice(1, 0, 40)));
}

TEST_CASE("SwiGLU and GeGLU: outputs and gradients") {
  for (const auto& [dtype, gate] : {std::pair(torch::kFloat32, base::Gate::silu),
                                    {torch::kBFloat16, base::Gate::silu},
                                    {torch::kFloat32, base::Gate::gelu_tanh},
                                    {torch::kBFloat16, base::Gate::gelu_tanh}}) {
    for (const std::int64_t width : {1, 7, 33}) {
      CAPTURE(width, dtype, static_cast<int>(gate));
      torch::manual_seed(4);
      const double bound = dtype == torch::kFloat32 ? kFp32 : kBf16;
      const Tensor gate_up = leaf((5 * torch::randn({65, 2 * width})).to(dtype)), wide = double_leaf(gate_up);
      const learner::Recomputable result = learner::swiglu(gate_up, gate);
      const Tensor got = result.value;
      CHECK(torch::equal(result.recompute(), got));
      const Tensor first = wide.slice(1, 0, width);
      const Tensor want =
          (gate == base::Gate::silu ? torch::silu(first) : torch::gelu(first, "tanh")) * wide.slice(1, width);
      CHECK(error(got, want) <= bound);
      const Tensor d = torch::randn({65, width}).to(dtype);
      got.backward(d);
      want.backward(d.to(torch::kFloat64));
      CHECK(error(gate_up.grad(), wide.grad()) <= bound);
    }
  }
}

TEST_CASE("attention layer: equals LibTorch's, one sequence at a time") {
  torch::manual_seed(5);
  const PackedRows rows = packed({33, 1, 7, 120});
  for (const auto& [heads, kv_heads, dim] :
       std::vector<std::tuple<int, int, int>>{{4, 2, 10}, {3, 1, 33}, {2, 2, 16}}) {
    CAPTURE(heads, kv_heads, dim);
    const std::int64_t width = (heads + 2 * kv_heads) * dim, n = rows.num_rows();
    const Tensor qkv = leaf(torch::randn({n, width})), wide = double_leaf(qkv);
    const Tensor got = learner::attention({qkv, [qkv] { return qkv.detach(); }}, rows, {heads, kv_heads, dim, 0},
                                          {torch::kFloat32, torch::kFloat32});
    std::vector<Tensor> parts;
    for (std::int64_t s = 0; s < rows.num_sequences(); ++s) {
      const auto at = static_cast<std::size_t>(s);
      const Tensor own = wide.slice(0, rows.sequence_starts[at], rows.sequence_starts[at + 1])
                             .view({-1, heads + 2 * kv_heads, dim})
                             .transpose(0, 1);
      const auto group = heads / kv_heads;
      const Tensor keys = own.slice(0, heads, heads + kv_heads).repeat_interleave(group, 0);
      const Tensor values = own.slice(0, heads + kv_heads).repeat_interleave(group, 0);
      const Tensor out =
          torch::scaled_dot_product_attention(own.slice(0, 0, heads), keys, values, {}, 0, /*is_causal=*/true);
      parts.push_back(out.transpose(0, 1).reshape({-1, heads * dim}));
    }
    const Tensor want = torch::cat(parts);
    CHECK(error(got, want) <= kFp32);
    const Tensor d = torch::randn({n, heads * dim});
    got.backward(d);
    want.backward(d.to(torch::kFloat64));
    CHECK(error(qkv.grad(), wide.grad()) <= kFp32);
  }
}

TEST_CASE("embedding, linear: add to their gradients") {
  torch::manual_seed(6);
  const PackedRows rows = packed({5, 40});
  const Weight table = weight_of(torch::randn({11, 33})), projection = weight_of(torch::randn({7, 33}));
  const Tensor wide_table = double_leaf(table.value), wide_projection = double_leaf(projection.value);
  const Tensor tokens = torch::tensor(std::vector<std::int64_t>(rows.tokens.begin(), rows.tokens.end()));
  const Tensor d = torch::randn({45, 7});
  for (int pass = 0; pass < 2; ++pass) {
    learner::linear(learner::embed(rows, table, table.value, torch::kFloat32), projection).backward(d);
    torch::mm(wide_table.index_select(0, tokens), wide_projection.t()).backward(d.to(torch::kFloat64));
  }
  CHECK(error(table.gradient, wide_table.grad()) <= kFp32);
  CHECK(error(projection.gradient, wide_projection.grad()) <= kFp32);
}

namespace {

ops::PackedLinear packed(const Tensor& weight) {
  const Tensor values = weight.to(torch::kFloat32).contiguous();
  const auto format = weight.scalar_type() == torch::kFloat32 ? quant::Format::f32 : quant::Format::bf16;
  ops::PackedLinear made = ops::make_packed_linear(format, weight.size(0), weight.size(1), false);
  base::Team alone = base::Team::solo();
  REQUIRE(ops::pack_rows(alone, values.data_ptr<float>(), weight.size(0), 0, made));
  return made;
}

}  // namespace

namespace {

/// Holds for each target at most `count` tokens from which it was sampled, including itself.
struct KeptSets {
  KeptSets(const learner::TargetRows& targets, std::int64_t count, std::int64_t vocab) {
    sets.resize(targets.targets.size());
    for (std::size_t i = 0; i < sets.size(); ++i) {
      std::set<types::TokenId> kept{targets.targets[i]};
      for (std::int64_t k = 1; k < count; ++k)
        kept.insert(static_cast<types::TokenId>((static_cast<std::int64_t>(i) * 31 + k * 17) % vocab));
      sets[i].assign(kept.begin(), kept.end());
      spans.emplace_back(sets[i]);
    }
  }
  std::vector<std::vector<types::TokenId>> sets;
  std::vector<std::span<const types::TokenId>> spans;
};

}  // namespace

TEST_CASE("frozen lm_head: log-probs have their gradients from the forward pass") {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    for (const bool has_master : {true, false}) {
      CAPTURE(dtype, has_master);
      torch::manual_seed(8);
      const Tensor values = torch::randn({50, 34}).to(dtype), table = torch::randn({259, 34}).to(dtype);
      const ops::PackedLinear head = packed(table);
      learner::TargetRows targets;
      targets.temperature = 0.7F;
      targets.chunk_tokens = 7;
      for (std::int64_t row = 1; row < 50; row += 3) {
        targets.rows.push_back(row);
        targets.targets.push_back(static_cast<std::int32_t>(row * 13 % 259));
      }
      const KeptSets kept(targets, 20, 259);
      targets.kept = kept.spans;
      const Tensor d = torch::randn({17});
      const auto gradient = [&](bool entropy_is_trained) {
        const Tensor hidden = leaf(values);
        const Weight lm_head{has_master ? table.to(torch::kFloat32) : Tensor(), Tensor()};
        targets.entropy_is_trained = entropy_is_trained;
        const learner::TargetScores scores = learner::target_log_probs(hidden, lm_head, head, targets, dtype);
        (scores.log_probs_M * d).sum().backward();
        return hidden.grad();
      };
      const Tensor at_once = gradient(false), recomputed = gradient(true);
      CHECK(recomputed.abs().max().item<float>() > 0);
      CHECK(error(at_once, recomputed.to(torch::kFloat64)) <= (dtype == torch::kFloat32 ? kFp32 : kBf16));
    }
  }
}

TEST_CASE("log-probs with an lm_head of int8: multiply quantized rows, and gradients are those of the dequantized") {
  torch::manual_seed(11);
  constexpr std::int64_t kVocab = 259, kWidth = 40, kRows = 21;
  const Tensor table = torch::randn({kVocab, kWidth}), values = torch::randn({kRows, kWidth});
  ops::PackedLinear head = ops::make_packed_linear(quant::Format::int8, kVocab, kWidth, false);
  base::Team alone = base::Team::solo();
  REQUIRE(ops::pack_rows(alone, table.data_ptr<float>(), kVocab, 0, head));
  learner::TargetRows targets;
  targets.temperature = 0.7F;
  targets.chunk_tokens = 8;
  for (std::int64_t row = 0; row < kRows; ++row) {
    targets.rows.push_back(row);
    targets.targets.push_back(static_cast<std::int32_t>(row * 13 % kVocab));
  }
  const Tensor hidden = leaf(values), d = torch::randn({kRows});
  const Weight lm_head{table, torch::zeros({kVocab, kWidth})};
  const learner::TargetScores got =
      learner::target_log_probs(hidden, lm_head, head, targets, torch::kFloat32, /*as_sampled=*/true);
  (got.log_probs_M * d).sum().backward();

  Tensor rows = torch::empty({kRows, kWidth}), weights = torch::empty({kVocab, kWidth});
  ops::Activations quantized(head, kRows);
  ops::quantize(alone, values.data_ptr<float>(), {0, kRows}, quantized);
  for (std::int64_t row = 0; row < kRows; ++row)
    ops::dequantize_row(quantized, row, rows.data_ptr<float>() + row * kWidth);
  ops::unpack_rows(head, 0, kVocab, weights.data_ptr<float>());
  CHECK((rows - values).abs().max().item<float>() > 1e-3F);
  const Tensor wide = double_leaf(rows), wide_head = double_leaf(weights);
  const Tensor log_p = torch::log_softmax(torch::mm(wide, wide_head.t()) / 0.7F, 1);
  const Tensor picks = torch::tensor(std::vector<std::int64_t>(targets.targets.begin(), targets.targets.end()));
  const Tensor want = log_p.gather(1, picks.unsqueeze(1)).squeeze(1);
  (want * d.to(torch::kFloat64)).sum().backward();
  CHECK(error(got.log_probs_M, want) <= kFp32);
  CHECK(error(hidden.grad(), wide.grad()) <= kFp32);
  CHECK(error(lm_head.gradient, wide_head.grad()) <= kFp32);
}

TEST_CASE("log-probs, entropies: independent of the chunk size") {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    for (const std::int64_t vocab : {5, 37, 259}) {
      for (const auto& [chunk, num_kept] :
           {std::pair{1, -1}, std::pair{7, 3}, std::pair{1024, -1}, std::pair{1024, 2}}) {
        CAPTURE(dtype, vocab, chunk, num_kept);
        torch::manual_seed(7);
        const double bound = dtype == torch::kFloat32 ? kFp32 : kBf16;
        const Tensor hidden = leaf(torch::randn({50, 33}).to(dtype));
        const Weight lm_head = weight_of(torch::randn({vocab, 33}).to(dtype));
        learner::TargetRows targets;
        targets.temperature = 0.7F;
        targets.chunk_tokens = chunk;
        for (std::int64_t row = 1; row < 50; row += 3) {
          targets.rows.push_back(row);
          targets.targets.push_back(static_cast<std::int32_t>(row * 13 % vocab));
        }
        const KeptSets kept(targets, num_kept, vocab);
        if (num_kept > 0) targets.kept = kept.spans;
        const ops::PackedLinear head = packed(lm_head.value);
        const learner::TargetScores got = learner::target_log_probs(hidden, lm_head, head, targets, dtype);
        const Tensor wide = double_leaf(hidden), wide_head = double_leaf(lm_head.value);
        const Tensor rows = torch::tensor(targets.rows);
        const Tensor picks = torch::tensor(std::vector<std::int64_t>(targets.targets.begin(), targets.targets.end()));
        Tensor logits = torch::mm(wide.index_select(0, rows), wide_head.t()) / 0.7F;
        if (num_kept > 0) {
          Tensor cut = torch::ones_like(logits, torch::kBool);
          for (std::int64_t m = 0; m < logits.size(0); ++m)
            for (const types::TokenId token : targets.kept_of(m)) cut[m][token] = false;
          logits = logits.masked_fill(cut, -1e30);
        }
        const Tensor log_p = torch::log_softmax(logits, 1);
        const Tensor want = log_p.gather(1, picks.unsqueeze(1)).squeeze(1);
        const Tensor entropy = -(log_p.exp() * log_p).sum(1);
        CHECK(error(got.log_probs_M, want) <= kFp32);
        CHECK(error(got.entropy_M, entropy) <= kFp32);
        const Tensor d = torch::randn({rows.numel()}), d_entropy = torch::randn({rows.numel()});
        ((got.log_probs_M * d).sum() + (got.entropy_M * d_entropy).sum()).backward();
        ((want * d).sum() + (entropy * d_entropy).sum()).backward();
        CHECK(error(hidden.grad(), wide.grad()) <= bound);
        CHECK(error(lm_head.gradient, wide_head.grad()) <= bound);
      }
    }
  }
}

}  // namespace qrl
