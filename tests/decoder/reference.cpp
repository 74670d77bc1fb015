#include "decoder/reference.h"

#include <algorithm>
#include <cmath>

#include "ops/linear.h"
#include "quant/format.h"

namespace qrl::decoder::test {

namespace {

using Row = std::vector<double>;

double to_double(const base::Buffer& buffer, std::int64_t idx) {
  return buffer.view().dtype == base::DType::bf16 ? base::to_float(buffer.as<base::bf16>()[idx])
                                                  : buffer.as<float>()[idx];
}

Row rounded_input(const Row& x, quant::Format format) {
  if (format == quant::Format::f32) return x;
  const std::vector<float> values(x.begin(), x.end());
  std::vector<float> rounded(values.size());
  quant::round_activations(format, values, rounded);
  return {rounded.begin(), rounded.end()};
}

Row linear(const ops::PackedLinear& weight, const Row& x) {
  const Row input = rounded_input(x, weight.format);
  std::vector<float> w(static_cast<std::size_t>(weight.out * weight.in));
  ops::unpack_rows(weight, 0, weight.out, w.data());
  Row y;
  for (std::int64_t o = 0; o < weight.out; ++o) {
    double sum = weight.bias.empty() ? 0.0 : weight.bias.as<float>()[o];
    for (std::size_t i = 0; i < input.size(); ++i) {
      sum += input[i] * w[static_cast<std::size_t>(o * weight.in) + i];
    }
    y.push_back(sum);
  }
  return y;
}

void norm(double* x, std::int64_t count, const base::Buffer& gain, double eps) {
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i) squares += x[i] * x[i];
  const double factor = 1 / std::sqrt(squares / static_cast<double>(count) + eps);
  for (std::int64_t i = 0; i < count; ++i) x[i] *= factor * gain.as<float>()[i];
}

Row normed(Row x, const base::Buffer& gain, double eps) {
  norm(x.data(), static_cast<std::int64_t>(x.size()), gain, eps);
  return x;
}

void rotate(double* head, std::int64_t head_dim, std::int64_t position, double theta) {
  const std::int64_t half = head_dim / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const double angle =
        static_cast<double>(position) * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    const double a = head[i], b = head[half + i];
    head[i] = a * std::cos(angle) - b * std::sin(angle);
    head[half + i] = b * std::cos(angle) + a * std::sin(angle);
  }
}

/// Returns the context [H·E] of the last row; each row is q | k | v.
Row attend(const model::ModelConfig& config, const std::vector<Row>& qkv) {
  const std::int64_t heads = config.num_attention_heads, kv_heads = config.num_key_value_heads, dim = config.head_dim;
  Row context;
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t kv = h / (heads / kv_heads);
    Row weights;
    for (const Row& past : qkv) {
      double dot = 0;
      for (std::int64_t e = 0; e < dim; ++e) {
        dot +=
            qkv.back()[static_cast<std::size_t>(h * dim + e)] * past[static_cast<std::size_t>((heads + kv) * dim + e)];
      }
      weights.push_back(dot / std::sqrt(static_cast<double>(dim)));
    }
    const double largest = *std::ranges::max_element(weights);
    double total = 0;
    for (double& weight : weights) total += weight = std::exp(weight - largest);
    for (std::int64_t e = 0; e < dim; ++e) {
      double sum = 0;
      for (std::size_t t = 0; t < qkv.size(); ++t) {
        sum += weights[t] / total * qkv[t][static_cast<std::size_t>((heads + kv_heads + kv) * dim + e)];
      }
      context.push_back(sum);
    }
  }
  return context;
}

void add(Row& x, const Row& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

Row mlp(const ops::PackedLinear& gate_up_weight, const ops::PackedLinear& down, const Row& x) {
  const Row gate_up = linear(gate_up_weight, x);
  const auto width = static_cast<std::size_t>(down.in);
  Row gated;
  for (std::size_t i = 0; i < width; ++i)
    gated.push_back(gate_up[i] / (1 + std::exp(-gate_up[i])) * gate_up[width + i]);
  return linear(down, gated);
}

/// Returns the route's gated sum of experts, and the difference between the route's smallest logit and the largest
/// other logit.
Row mlp_of_experts(const model::ModelConfig& config, const model::LayerSnapshot& layer, const Row& x, double& margin) {
  const Row logits = linear(layer.router, x);
  std::vector<std::size_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  const auto chosen = static_cast<std::size_t>(config.num_experts_per_tok);
  margin = chosen == order.size() ? 1e9 : logits[order[chosen - 1]] - logits[order[chosen]];
  double total = 0;
  for (std::size_t i = 0; i < (config.norm_topk_prob ? chosen : order.size()); ++i)
    total += std::exp(logits[order[i]] - logits[order[0]]);
  Row sum(x.size());
  for (std::size_t i = 0; i < chosen; ++i) {
    const double gate = std::exp(logits[order[i]] - logits[order[0]]) / total;
    const Row y = mlp(layer.expert_gate_up[order[i]], layer.expert_down[order[i]], x);
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += gate * y[k];
  }
  return sum;
}

void run_layer(const model::Snapshot& snapshot, std::int64_t l, std::vector<Row>& xs, std::vector<double>* margins) {
  const model::ModelConfig& config = snapshot.config();
  const double eps = config.rms_norm_eps;
  const model::LayerSnapshot& layer = snapshot.layer(l);
  std::vector<Row> qkv;
  for (std::size_t t = 0; t < xs.size(); ++t) {
    Row& x = xs[t];
    Row& row = qkv.emplace_back(linear(layer.qkv, normed(x, layer.input_norm_D, eps)));
    for (std::int64_t h = 0; h < config.num_attention_heads + config.num_key_value_heads; ++h) {
      double* head = row.data() + h * config.head_dim;
      const bool is_q = h < config.num_attention_heads;
      if (config.qk_norm) norm(head, config.head_dim, is_q ? layer.q_norm_E : layer.k_norm_E, eps);
      rotate(head, config.head_dim, static_cast<std::int64_t>(t), config.rope_theta);
    }
    add(x, linear(layer.o, attend(config, qkv)));
    const Row after = normed(x, layer.post_norm_D, eps);
    if (!config.is_sparse(l)) {
      add(x, mlp(layer.gate_up, layer.down, after));
      continue;
    }
    double margin = 0;
    add(x, mlp_of_experts(config, layer, after, margin));
    if (margins != nullptr) margins->push_back(margin);
  }
}

}  // namespace

std::vector<double> reference_layer(const model::Snapshot& snapshot, std::int64_t layer, const std::vector<double>& x,
                                    std::vector<double>* margins) {
  const auto width = static_cast<std::ptrdiff_t>(snapshot.config().hidden_size);
  std::vector<Row> xs;
  for (auto at = x.begin(); at != x.end(); at += width) xs.emplace_back(at, at + width);
  run_layer(snapshot, layer, xs, margins);
  std::vector<double> y;
  for (const Row& row : xs) y.insert(y.end(), row.begin(), row.end());
  return y;
}

std::vector<double> reference_logits(const model::Snapshot& snapshot, const std::vector<types::TokenId>& tokens) {
  const model::ModelConfig& config = snapshot.config();
  const double eps = config.rms_norm_eps;
  std::vector<Row> xs;
  for (const types::TokenId token : tokens) {
    Row& x = xs.emplace_back();
    for (std::int64_t i = 0; i < config.hidden_size; ++i) {
      x.push_back(to_double(snapshot.embedding_VD(), token * config.hidden_size + i));
    }
  }
  for (std::int64_t l = 0; l < config.num_hidden_layers; ++l) run_layer(snapshot, l, xs, nullptr);
  std::vector<double> logits;
  for (const Row& x : xs) {
    const Row row = linear(snapshot.lm_head(), normed(x, snapshot.final_norm_D(), eps));
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

}  // namespace qrl::decoder::test
