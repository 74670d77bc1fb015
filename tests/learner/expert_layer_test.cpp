// Tests one layer of experts in every forward and backward mode against sums in fp64 of the same rounded operands.
#include <algorithm>

#include "learner/codecs.h"
#include "learner/forward/fused_ops.h"
#include "learner/forward/packed_rows.h"
#include "learner/forward/quantized.h"
#include "learner/support.h"
#include "ops/linear.h"

using namespace qrl;
using learner::LearnerBackward;
using learner::LearnerForward;
using quant::Format;
using torch::Tensor;

namespace {

// More than the 128 inputs and outputs that share a scale in some formats.
constexpr std::int64_t kWidth = 150, kInner = 140, kTokensOfLayer = 61;

struct LayerWay {
  bool norm_topk = true;
  LearnerForward forward = LearnerForward::bf16;
  Format format = Format::f32;
  LearnerBackward backward = LearnerBackward::model_dtype;
  torch::ScalarType compute = torch::kFloat32;
};

/// Holds a layer's weights, as masters or in a snapshot's form, and the inputs of its passes.
struct ExpertLayer {
  explicit ExpertLayer(const LayerWay& how) : way(how) {
    config = test::tiny_moe_config(way.norm_topk);
    config.hidden_size = kWidth;
    config.moe_intermediate_size = kInner;
    torch::manual_seed(3);
    const std::int64_t count = config.num_experts;
    router = torch::randn({count, kWidth}) * 0.1;
    gate_up = torch::randn({count, 2 * kInner, kWidth}) * 0.1;
    down = torch::randn({count, kWidth, kInner}) * 0.1;
    x = torch::randn({kTokensOfLayer, kWidth});
    d_y = torch::randn({kTokensOfLayer, kWidth});
    weights.sparse_idx = 0;
    weights.router.weight = {router, torch::zeros_like(router)};
    weights.expert_gate_up.weight = {gate_up, torch::zeros_like(gate_up)};
    weights.expert_down.weight = {down, torch::zeros_like(down)};
    if (way.forward == LearnerForward::bf16) return;
    pack(router, wide(), {count}, packed_router);
    for (std::int64_t expert = 0; expert < count; ++expert) {
      pack(gate_up[expert], way.format, {kInner, kInner}, packed_gate_up);
      pack(down[expert], way.format, {kWidth}, packed_down);
    }
    weights.router.quantized = &packed_router.front();
    weights.expert_gate_up.quantized = packed_gate_up;
    weights.expert_down.quantized = packed_down;
  }
  ExpertLayer(const ExpertLayer&) = delete;
  ExpertLayer& operator=(const ExpertLayer&) = delete;

  Format wide() const { return way.format == Format::f32 ? Format::f32 : Format::bf16; }
  learner::ForwardNumerics numerics() const {
    learner::ForwardNumerics made;
    made.compute = made.between = way.compute;
    if (way.forward != LearnerForward::bf16) made.between = torch::kFloat32;
    made.forward = way.forward;
    made.backward = way.backward;
    return made;
  }

  LayerWay way;
  model::ModelConfig config;
  Tensor router, gate_up, down, x, d_y;
  std::vector<ops::PackedLinear> packed_router, packed_gate_up, packed_down;
  learner::LayerWeights weights;

 private:
  static void pack(const Tensor& weight, Format format, const std::vector<std::int64_t>& tensors,
                   std::vector<ops::PackedLinear>& all) {
    ops::PackedLinear packed = ops::make_packed_linear(format, weight.size(0), weight.size(1), false);
    base::Team alone = base::Team::solo();
    std::int64_t first = 0;
    for (const std::int64_t outputs : tensors) {
      REQUIRE(ops::pack_rows(alone, weight[first].data_ptr<float>(), outputs, first, packed));
      first += outputs;
    }
    packed.tensors = tensors;
    all.push_back(std::move(packed));
  }
};

/// Results of a pass: the branch, gradients of x and the weights, and each row's experts [N, k].
struct LayerResult {
  Tensor y, d_x, d_router, d_gate_up, d_down;
  std::vector<std::uint8_t> own;
};

LayerResult run_layer(ExpertLayer& layer, const std::vector<std::uint8_t>& given = {}) {
  learner::PackedRows rows;
  rows.tokens.resize(kTokensOfLayer);
  rows.routes = learner::make_routes(layer.config, kTokensOfLayer);
  rows.routes->num_layers = 1;
  rows.routes->given = given;
  const learner::FusedOps ops(rows, layer.config, layer.numerics(), nullptr);
  const Tensor leaf = layer.x.detach().clone().to(layer.numerics().between).set_requires_grad(true);
  const Tensor y = ops.mlp_of_experts(layer.weights, {leaf, {}}, true);
  y.backward(layer.d_y);
  rows.routes->own.resize(static_cast<std::size_t>(kTokensOfLayer * layer.config.num_experts_per_tok));
  return {y.detach(),
          leaf.grad().to(torch::kFloat32),
          layer.weights.router.weight.gradient,
          layer.weights.expert_gate_up.weight.gradient,
          layer.weights.expert_down.weight.gradient,
          rows.routes->own};
}

Tensor in_fp64(const Tensor& values) { return values.to(torch::kFloat64); }

/// Returns dY·Ŵ and dYᵀ·X̂ of one matrix in fp64, with dY rounded as the backward format has it. `outputs`: its tensors.
struct ReferenceGradients {
  Tensor d_x, d_w;
};
ReferenceGradients reference_gradients(const LayerWay& way, const Tensor& d_y, const Tensor& w, const Tensor& w_hat,
                                       const Tensor& x, const Tensor& x_hat, std::int64_t outputs) {
  if (way.backward == LearnerBackward::model_dtype) return {torch::mm(d_y, w_hat), torch::mm(d_y.t(), x_hat)};
  const Tensor f32 = d_y.to(torch::kFloat32);
  if (way.backward == LearnerBackward::int8) {
    const Tensor x_scales = x.abs().amax(1, true) / 127, w_scales = w.abs().amax(1, true) / 127;
    const Tensor for_x = test::codec_rows(f32 * w_scales.t(), Format::int8);
    const Tensor for_w = test::codec_rows((f32 * x_scales).t().contiguous(), Format::int8);
    return {torch::mm(for_x, w_hat / in_fp64(w_scales)), torch::mm(for_w, x_hat / in_fp64(x_scales))};
  }
  std::vector<Tensor> for_x;
  for (const Tensor& part : f32.split(outputs, 1)) for_x.push_back(test::codec_rows(part.contiguous(), way.format));
  const Tensor x_columns = test::codec_rows(x_hat.to(torch::kFloat32).t().contiguous(), way.format);
  return {torch::mm(torch::cat(for_x, 1), w_hat),
          torch::mm(test::codec_rows(f32.t().contiguous(), way.format), x_columns.t())};
}

/// Computes the layer in fp64 from operands rounded as its formats have them. `used` [N, k]: each row's experts.
LayerResult reference_layer(const ExpertLayer& layer, const std::vector<std::uint8_t>& used) {
  const LayerWay& way = layer.way;
  const bool is_quantized = way.forward != LearnerForward::bf16;
  const auto rows_of = [&](const Tensor& rows, Format format) {
    return is_quantized ? test::codec_rows(rows.contiguous(), format) : in_fp64(rows);
  };
  const auto weights_of = [&](const Tensor& weights, Format format) {
    return is_quantized ? test::codec_weights(weights.contiguous(), format) : in_fp64(weights);
  };
  const std::int64_t count = layer.config.num_experts, chosen = layer.config.num_experts_per_tok;
  const Tensor x_router = rows_of(layer.x, layer.wide()), w_router = weights_of(layer.router, layer.wide());
  const Tensor logits = torch::mm(x_router, w_router.t()).set_requires_grad(true);
  const Tensor experts_NK =
      torch::tensor(std::vector<std::int64_t>(used.begin(), used.end())).view({kTokensOfLayer, chosen});
  Tensor gates_NK = logits.softmax(1).gather(1, experts_NK);
  if (layer.config.norm_topk_prob) gates_NK = gates_NK / gates_NK.sum(1, true);

  LayerResult result{torch::zeros({kTokensOfLayer, kWidth}, torch::kFloat64),
                     torch::zeros({kTokensOfLayer, kWidth}, torch::kFloat64),
                     {},
                     torch::zeros_like(in_fp64(layer.gate_up)),
                     torch::zeros_like(in_fp64(layer.down)),
                     {}};
  const Tensor d_gates_NK = torch::zeros_like(gates_NK).detach();
  const Tensor d_y = in_fp64(layer.d_y);
  for (std::int64_t expert = 0; expert < count; ++expert) {
    const Tensor pairs = (experts_NK == expert).nonzero();
    if (pairs.size(0) == 0) continue;
    const Tensor rows = pairs.select(1, 0), at = pairs.select(1, 1);
    const Tensor x = layer.x.index_select(0, rows), gate = gates_NK.detach().index({rows, at}).unsqueeze(1);
    const Tensor x_hat = rows_of(x, way.format);
    const Tensor gate_up_hat = torch::cat({weights_of(layer.gate_up[expert].narrow(0, 0, kInner), way.format),
                                           weights_of(layer.gate_up[expert].narrow(0, kInner, kInner), way.format)});
    const Tensor down_hat = weights_of(layer.down[expert], way.format);
    const Tensor halves = torch::mm(x_hat, gate_up_hat.t()).set_requires_grad(true);
    const Tensor a = torch::silu(halves.narrow(1, 0, kInner)) * halves.narrow(1, kInner, kInner);
    Tensor a_f32 = a.detach().to(torch::kFloat32);
    if (is_quantized) {  // the learner's own values, so that both round the same ones
      const torch::NoGradGuard no_grad;
      const learner::Quantized how{&layer.packed_gate_up[static_cast<std::size_t>(expert)],
                                   way.forward == LearnerForward::low_bit, way.compute};
      a_f32 = learner::swiglu(learner::quantized_linear(x, {}, how)).value;
      CHECK(test::off_by(a_f32, a.detach()) <= 5e-6);
    }
    const Tensor a_hat = rows_of(a_f32, way.format);
    result.y.index_add_(0, rows, gate * torch::mm(a_hat, down_hat.t()));

    const Tensor d_rows = d_y.index_select(0, rows);
    const auto ungated = reference_gradients(way, d_rows, layer.down[expert], down_hat, a_f32, a_hat, kWidth);
    d_gates_NK.index_put_({rows, at}, (ungated.d_x * a_hat).sum(1));
    result.d_down[expert] =
        reference_gradients(way, d_rows * gate, layer.down[expert], down_hat, a_f32, a_hat, kWidth).d_w;
    a.backward(ungated.d_x * gate);
    const auto second = reference_gradients(way, halves.grad(), layer.gate_up[expert], gate_up_hat, x, x_hat, kInner);
    result.d_gate_up[expert] = second.d_w;
    result.d_x.index_add_(0, rows, second.d_x);
  }
  gates_NK.backward(d_gates_NK);
  result.d_router = torch::mm(logits.grad().t(), x_router);
  result.d_x += torch::mm(logits.grad(), w_router);
  return result;
}

std::vector<std::uint8_t> largest_logits(const ExpertLayer& layer) {
  const bool is_quantized = layer.way.forward != LearnerForward::bf16;
  const Tensor logits = is_quantized ? torch::mm(test::codec_rows(layer.x, layer.wide()),
                                                 test::codec_weights(layer.router, layer.wide()).t())
                                     : torch::mm(in_fp64(layer.x), in_fp64(layer.router).t());
  const Tensor sorted = std::get<0>(std::get<1>(logits.topk(layer.config.num_experts_per_tok, 1)).sort(1));
  std::vector<std::uint8_t> all;
  for (std::int64_t i = 0; i < sorted.numel(); ++i)
    all.push_back(static_cast<std::uint8_t>(sorted.contiguous().data_ptr<std::int64_t>()[i]));
  return all;
}

void check_layer(const LayerResult& got, const LayerResult& want, double bound, double gradient_bound) {
  CHECK(test::off_by(got.y, want.y) <= bound);
  CHECK(test::off_by(got.d_x, want.d_x) <= gradient_bound);
  CHECK(test::off_by(got.d_router, want.d_router) <= gradient_bound);
  CHECK(test::off_by(got.d_gate_up, want.d_gate_up) <= gradient_bound);
  CHECK(test::off_by(got.d_down, want.d_down) <= gradient_bound);
}

}  // namespace

TEST_CASE("MoE layer: output and gradients equal fp64 at the rounded operands, in every forward mode") {
  for (const bool norm_topk : {true, false}) {
    for (const LearnerForward forward : {LearnerForward::bf16, LearnerForward::fake_quant, LearnerForward::low_bit}) {
      for (int i = 0; i < quant::kNumFormats; ++i) {
        const auto format = static_cast<Format>(i);
        if (forward == LearnerForward::bf16 && format != Format::f32) continue;
        CAPTURE(norm_topk, static_cast<int>(forward), quant::name(format));
        ExpertLayer layer({norm_topk, forward, format});
        const LayerResult got = run_layer(layer);
        CHECK(got.own == largest_logits(layer));
        check_layer(got, reference_layer(layer, got.own), 5e-6, 5e-6);
      }
    }
  }
}

TEST_CASE("MoE layer: bf16 is within its roundings of fp64") {
  for (const bool norm_topk : {true, false}) {
    CAPTURE(norm_topk);
    ExpertLayer layer({norm_topk, LearnerForward::bf16, Format::f32, LearnerBackward::model_dtype, torch::kBFloat16});
    for (Tensor* values : {&layer.x, &layer.router, &layer.gate_up, &layer.down, &layer.d_y})
      values->copy_(values->to(torch::kBFloat16));
    const LayerResult got = run_layer(layer);
    CHECK(got.own == largest_logits(layer));
    const LayerResult want = reference_layer(layer, got.own);
    check_layer(got, want, 2e-2, 2e-2);
    CHECK(test::off_by(got.d_gate_up, want.d_gate_up) > 1e-4);  // it does round
  }
}

TEST_CASE("MoE layer: both low-bit backward passes equal gradients rounded by the reference codec") {
  for (const bool norm_topk : {true, false}) {
    for (const auto& [format, backward] :
         {std::pair{Format::int8, LearnerBackward::int8}, std::pair{Format::fp8_block128, LearnerBackward::fp8_e4m3}}) {
      CAPTURE(norm_topk, quant::name(format));
      ExpertLayer layer({norm_topk, LearnerForward::low_bit, format, backward});
      const LayerResult got = run_layer(layer);
      const LayerResult want = reference_layer(layer, got.own);
      // A gradient at a tie may round either way: a code in thousands.
      check_layer(got, want, 5e-6, 2e-3);
      layer.way.backward = LearnerBackward::model_dtype;
      const LayerResult exact_gradients = reference_layer(layer, got.own);
      for (const auto part : {&LayerResult::d_x, &LayerResult::d_gate_up, &LayerResult::d_down})
        CHECK(test::off_by(got.*part, exact_gradients.*part) > 4e-3);  // it does round
    }
  }
}

TEST_CASE("MoE layer: given routes are used, and the router's gradient is that of its own logits") {
  for (const bool norm_topk : {true, false}) {
    CAPTURE(norm_topk);
    ExpertLayer layer({norm_topk, LearnerForward::low_bit, Format::int8});
    std::vector<std::uint8_t> foreign;
    for (std::int64_t row = 0; row < kTokensOfLayer; ++row) {
      const auto first = static_cast<std::uint8_t>(row % 4);
      foreign.push_back(first);
      foreign.push_back(static_cast<std::uint8_t>(first + 1));
    }
    const LayerResult got = run_layer(layer, foreign);
    CHECK(got.own == largest_logits(layer));  // still reported
    CHECK(got.own != foreign);
    check_layer(got, reference_layer(layer, foreign), 5e-6, 5e-6);
    CHECK(got.d_router.abs().max().item<float>() > 0);
  }
}

TEST_CASE("MoE layer: recomputing takes the routes of the first pass") {
  ExpertLayer layer({});
  learner::PackedRows rows;
  rows.tokens.resize(kTokensOfLayer);
  rows.routes = learner::make_routes(layer.config, kTokensOfLayer);
  const learner::FusedOps ops(rows, layer.config, layer.numerics(), nullptr);
  (void)ops.mlp_of_experts(layer.weights, {layer.x, {}}, true);
  const std::vector<std::uint8_t> first = rows.routes->own;
  layer.router.neg_();  // by itself it would choose others
  const Tensor again = ops.mlp_of_experts(layer.weights, {layer.x, {}}, true);
  CHECK(rows.routes->own == first);
  std::vector<std::uint8_t> of_layer;
  for (std::int64_t row = 0; row < kTokensOfLayer; ++row)
    of_layer.insert(of_layer.end(), first.begin() + rows.routes->at(row, 0),
                    first.begin() + rows.routes->at(row, 0) + 2);
  CHECK(test::off_by(again, reference_layer(layer, of_layer).y) <= 5e-6);
}
