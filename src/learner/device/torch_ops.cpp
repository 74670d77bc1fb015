#include "learner/device/torch_ops.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "learner/device/device_quantized.h"
#include "learner/device/torch_linear.h"
#include "learner/tensors/host_copies.h"

namespace qrl::learner {

namespace {

std::vector<std::int32_t> starts_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int32_t> starts{0};
  for (const std::int64_t length : lengths) starts.push_back(starts.back() + static_cast<std::int32_t>(length));
  return starts;
}

Tensor f32(const Tensor& x) { return x.to(torch::kFloat32); }

Tensor normed(const Tensor& x, const Tensor& gain, double eps) { return torch::rms_norm(x, {x.size(-1)}, gain, eps); }

/// Turns the first elements of each head, as many as the angles have columns.
Tensor rotated(const Tensor& x_NHE, const Tensor& angles_NR) {
  const std::int64_t width = angles_NR.size(1), rest = x_NHE.size(2) - width;
  const std::vector<Tensor> x = x_NHE.narrow(-1, 0, width).chunk(2, -1), angle = angles_NR.unsqueeze(1).chunk(2, -1);
  const Tensor low = x[0] * angle[0] - x[1] * angle[1], high = x[1] * angle[0] + x[0] * angle[1];
  return rest == 0 ? torch::cat({low, high}, -1) : torch::cat({low, high, x_NHE.narrow(-1, width, rest)}, -1);
}

/// Computes x + factor · (branch + bias); the branch may be undefined.
Tensor residual_sum(const Tensor& x_ND, const Tensor& branch_ND, const Tensor& bias, float factor) {
  if (!branch_ND.defined()) return x_ND;
  const Tensor branch = bias.defined() ? f32(branch_ND) + bias : f32(branch_ND);
  return x_ND + (factor == 1 ? branch : branch * static_cast<double>(factor));
}

Tensor embed_rows(const DeviceRows& rows, const Weight& table_VD, torch::ScalarType compute) {
  const Tensor leaf = torch::empty({0}, table_VD.value.options().dtype(torch::kFloat32)).set_requires_grad(true);
  const Tensor x_ND = f32(table_VD.value.index_select(0, rows.tokens.tokens_N).to(compute));
  return differentiable({leaf}, {x_ND}, [tokens = rows.tokens.tokens_N, table_VD](const TensorList& d) {
    Tensor gradient = table_VD.gradient;
    if (gradient.defined()) gradient.index_add_(0, tokens, d[0]);
    return TensorList(1);
  })[0];
}

AddedNorm add_norm(const Tensor& x_ND, const Branch& branch, const Weight& gain, float eps, torch::ScalarType out,
                   const cuda::TrainingKernels* kernels) {
  const bool is_fused = gain.defined() && branch.factor == 1;  // what training's kernels compute
  if (kernels != nullptr && is_fused) return fused_add_norm(*kernels, x_ND, branch, gain, eps, out);
  if (!gain.defined()) {
    const Tensor sum_ND = residual_sum(x_ND, branch.value_ND, {}, branch.factor);
    return {sum_ND, sum_ND.to(out)};
  }
  if (!branch.value_ND.defined()) {
    const auto norm = [eps, out](const TensorList& in) { return TensorList{normed(in[0], in[1], eps).to(out)}; };
    return {x_ND, checkpointed(norm, {x_ND}, {gain})[0]};
  }
  const bool has_bias = branch.bias.defined();
  const TensorList results = checkpointed(
      [eps, out, has_bias, factor = branch.factor](const TensorList& in) {
        const Tensor sum_ND = residual_sum(in[0], in[1], has_bias ? in[3] : Tensor(), factor);
        return TensorList{sum_ND, normed(sum_ND, in[2], eps).to(out)};
      },
      {x_ND, branch.value_ND}, has_bias ? std::vector<Weight>{gain, branch.bias} : std::vector<Weight>{gain});
  return {results[0], results[1]};
}

struct Qkv {
  Tensor q_NHE, k_NKE, v_NKE;
};

Qkv transform(const Tensor& qkv_NC, const DeviceRows& rows, const Heads& heads, const QkvWeights& weights,
              torch::ScalarType out, const cuda::TrainingKernels* kernels) {
  const Tensor& angles_NR = weights.rope == model::RopeKind::sliding ? rows.sliding_angles_NR : rows.angles_NR;
  const bool turns_whole = weights.rope != model::RopeKind::none && angles_NR.size(1) == heads.head_dim;
  const bool norms_whole = heads.norms_whole && weights.q_gain.defined();
  if (kernels != nullptr && turns_whole && !norms_whole) {
    const TensorList parts = fused_qkv(*kernels, qkv_NC, angles_NR, heads, weights, out);
    return {parts[0], parts[1], parts[2]};
  }
  std::vector<Weight> present;
  for (const Weight& weight : {weights.bias, weights.q_gain, weights.k_gain}) {
    if (weight.defined()) present.push_back(weight);
  }
  const bool has_bias = weights.bias.defined(), has_norms = weights.q_gain.defined();
  const TensorList results = checkpointed(
      [angles_NR, heads, has_bias, has_norms, rope = weights.rope, out](const TensorList& in) {
        const Tensor x_NC = has_bias ? f32(in[0]) + in[1] : f32(in[0]);
        const std::int64_t num_heads = heads.num_heads, num_kv_heads = heads.num_kv_heads;
        const std::vector<Tensor> parts =
            x_NC.view({x_NC.size(0), -1, heads.head_dim}).split_with_sizes({num_heads, num_kv_heads, num_kv_heads}, 1);
        const auto normed_heads = [&](const Tensor& x_NHE, const Tensor& gain) {
          return heads.norms_whole ? normed(x_NHE.flatten(1), gain, heads.norm_eps).view(x_NHE.sizes())
                                   : normed(x_NHE, gain, heads.norm_eps);
        };
        Tensor q = parts[0], k = parts[1];
        if (has_norms) {
          const std::size_t first = has_bias ? 2 : 1;
          q = normed_heads(q, in[first]);
          k = normed_heads(k, in[first + 1]);
        }
        if (rope != model::RopeKind::none) {
          q = rotated(q, angles_NR);
          k = rotated(k, angles_NR);
        }
        return TensorList{q.to(out), k.to(out), parts[2].to(out)};
      },
      {qkv_NC}, present);
  return {results[0], results[1], results[2]};
}

Tensor plain_attention(const Qkv& qkv, const DeviceRows& rows, const Heads& heads) {
  TensorList outputs;
  std::int64_t first = 0, first_key = 0;
  const std::int64_t group = heads.num_heads / heads.num_kv_heads;
  for (std::size_t s = 0; s < rows.lengths.size(); ++s) {
    const std::int64_t num_queries = rows.lengths[s], num_keys = rows.key_lengths[s];
    const auto heads_first = [](const Tensor& x, std::int64_t begin, std::int64_t count) {
      return f32(x.narrow(0, begin, count).transpose(0, 1));
    };
    const Tensor q_HQE = heads_first(qkv.q_NHE, first, num_queries);
    const Tensor k_HTE = heads_first(qkv.k_NKE, first_key, num_keys).repeat_interleave(group, 0);
    const Tensor v_HTE = heads_first(qkv.v_NKE, first_key, num_keys).repeat_interleave(group, 0);
    const Tensor all_QT = torch::ones({num_queries, num_keys}, q_HQE.options().dtype(torch::kBool));
    const std::int64_t first_query = num_keys - num_queries;
    Tensor hidden_QT = all_QT.triu(first_query + 1);
    if (heads.window > 0) hidden_QT = hidden_QT.logical_or(all_QT.tril(first_query - heads.window));
    const Tensor scores_HQT = q_HQE.matmul(k_HTE.transpose(1, 2)) / heads.score_divisor();
    const Tensor weights_HQT = scores_HQT.masked_fill(hidden_QT, -INFINITY).softmax(-1);
    outputs.push_back(weights_HQT.matmul(v_HTE).transpose(0, 1).to(qkv.q_NHE.scalar_type()));
    first += num_queries;
    first_key += num_keys;
  }
  return torch::cat(outputs);
}

bool has_flash(const Tensor& q_NHE) {
  return !q_NHE.is_cpu() && q_NHE.scalar_type() == torch::kBFloat16 && q_NHE.size(2) % 8 == 0 && q_NHE.size(2) <= 256;
}

Qkv with_prefixes(const Qkv& own, const RowLists& keys, const cuda::TrainingKernels* kernels) {
  if (!keys.rows.defined()) return own;
  if (kernels == nullptr)
    return {own.q_NHE, own.k_NKE.index_select(0, keys.rows), own.v_NKE.index_select(0, keys.rows)};
  const TensorList gathered = fused_gather(*kernels, keys, own.k_NKE, own.v_NKE);
  return {own.q_NHE, gathered[0], gathered[1]};
}

Tensor packed_attention(const Qkv& own, const DeviceRows& rows, const Heads& heads,
                        const cuda::TrainingKernels* kernels) {
  const Qkv qkv = with_prefixes(own, rows.keys, kernels);
  if (!has_flash(own.q_NHE)) {
    return checkpointed(
        [rows, heads](const TensorList& in) {
          return TensorList{plain_attention({in[0], in[1], in[2]}, rows, heads)};
        },
        {qkv.q_NHE, qkv.k_NKE, qkv.v_NKE})[0];
  }
  constexpr bool kCausal = true;  // the mask aligns the last query with the last key
  const std::optional<std::int64_t> before = heads.window > 0 ? std::optional(heads.window - 1) : std::nullopt;
  const std::optional<std::int64_t> after = heads.window > 0 ? std::optional<std::int64_t>(0) : std::nullopt;
  return std::get<0>(at::_flash_attention_forward(qkv.q_NHE, qkv.k_NKE, qkv.v_NKE, rows.starts, rows.key_starts,
                                                  *std::max_element(rows.lengths.begin(), rows.lengths.end()),
                                                  *std::max_element(rows.key_lengths.begin(), rows.key_lengths.end()),
                                                  /*dropout_p=*/0, kCausal,
                                                  /*return_debug_mask=*/false, 1 / heads.score_divisor(), before,
                                                  after));
}

/// Rounds keys or values like int8 pages, with one scale per row and head. Gradients pass straight through.
Tensor as_in_int8_pages(const Tensor& x_NKE) {
  const Tensor rows = f32(x_NKE.detach()).reshape({-1, x_NKE.size(2)});
  const Tensor rounded = rounded_activations(rows, quant::Format::int8).view(x_NKE.sizes()).to(x_NKE.scalar_type());
  return differentiable({x_NKE}, {rounded}, [](const TensorList& d) { return TensorList{d[0]}; })[0];
}

Tensor gated(const Tensor& halves_N2F, base::Gate gate, torch::ScalarType out, const cuda::TrainingKernels* kernels) {
  if (kernels != nullptr && gate == base::Gate::silu) return fused_swiglu(*kernels, halves_N2F, out);
  return checkpointed(
      [gate, out](const TensorList& in) {
        const std::vector<Tensor> halves = f32(in[0]).chunk(2, -1);
        const Tensor gate_NF = gate == base::Gate::silu ? torch::silu(halves[0]) : torch::gelu(halves[0], "tanh");
        return TensorList{(gate_NF * halves[1]).to(out)};
      },
      {halves_N2F})[0];
}

}  // namespace

DeviceRows place_rows(const PackedRows& rows, std::int64_t rotary_dim, const torch::Device& device) {
  DeviceRows placed;
  const auto angles_of = [&](const float* table) {
    const Tensor angles_NR = torch::empty({rows.num_rows(), rotary_dim});
    for (std::int64_t r = 0; r < rows.num_rows(); ++r) {
      std::copy_n(table + rows.positions[static_cast<std::size_t>(r)] * rotary_dim, rotary_dim,
                  angles_NR.data_ptr<float>() + r * rotary_dim);
    }
    return angles_NR;
  };
  const Tensor angles_NR = angles_of(rows.rope_table);
  const Tensor sliding_NR = rows.sliding_rope_table != nullptr ? angles_of(rows.sliding_rope_table) : Tensor();

  std::vector<std::int32_t> key_rows;
  std::int64_t prefix_begin = 0, prefix_end = 0;
  const auto append = [&key_rows](std::int64_t begin, std::int64_t end) {
    const auto old = static_cast<std::ptrdiff_t>(key_rows.size());
    key_rows.resize(key_rows.size() + static_cast<std::size_t>(end - begin));
    std::iota(key_rows.begin() + old, key_rows.end(), static_cast<std::int32_t>(begin));
  };
  for (std::int64_t s = 0; s < rows.num_sequences(); ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int64_t begin = rows.sequence_starts[at], end = rows.sequence_starts[at + 1];
    const bool continues = !rows.continues_prefix.empty() && rows.continues_prefix[at] != 0;
    if (!continues) prefix_begin = begin, prefix_end = end;
    const std::size_t before = key_rows.size();
    if (continues) append(prefix_begin, prefix_end);
    append(begin, end);
    placed.lengths.push_back(end - begin);
    placed.key_lengths.push_back(static_cast<std::int64_t>(key_rows.size() - before));
  }
  const HostTokenLists tokens = token_lists(rows.tokens);
  const std::vector<std::int32_t> starts = starts_of(placed.lengths), key_starts = starts_of(placed.key_lengths);
  std::vector<HostArray> arrays = {array_of(rows.tokens),
                                   array_of(tokens.distinct),
                                   array_of(tokens.starts),
                                   array_of(tokens.rows),
                                   {angles_NR.data_ptr(), torch::kFloat32, {rows.num_rows(), rotary_dim}},
                                   array_of(starts),
                                   array_of(key_starts)};
  if (sliding_NR.defined()) arrays.push_back({sliding_NR.data_ptr(), torch::kFloat32, {rows.num_rows(), rotary_dim}});
  const std::size_t without_keys = arrays.size();
  HostRowLists keys;
  if (!rows.continues_prefix.empty()) {
    keys = row_lists(std::move(key_rows), rows.num_rows());
    for (const auto* of_keys : {&keys.rows, &keys.starts, &keys.places}) arrays.push_back(array_of(*of_keys));
  }
  const TensorList sent = send(arrays, device);
  placed.tokens = {sent[0], sent[1], sent[2], sent[3]};
  placed.angles_NR = sent[4];
  placed.starts = sent[5];
  placed.key_starts = sent[6];
  if (sliding_NR.defined()) placed.sliding_angles_NR = sent[7];
  if (sent.size() > without_keys) placed.keys = {sent[without_keys], sent[without_keys + 1], sent[without_keys + 2]};
  return placed;
}

TorchOps::TorchOps(DeviceRows rows, const model::ModelConfig& config, const ForwardNumerics& numerics,
                   const TorchDevice& device)
    : Ops(numerics),
      rows_(std::move(rows)),
      heads_(heads_of(config)),
      embedding_multiplier_(config.embedding_multiplier),
      residual_multiplier_(config.residual_multiplier),
      gate_(config.gate),
      device_(device) {}

Tensor TorchOps::embed(const Weight& table_VD) const {
  const Tensor x_ND = device_.kernels != nullptr
                          ? fused_embed(*device_.kernels, rows_.tokens, table_VD, numerics().compute)
                          : embed_rows(rows_, table_VD, numerics().compute);
  return embedding_multiplier_ == 1 ? x_ND : x_ND * static_cast<double>(embedding_multiplier_);
}

Normed TorchOps::add_norm(const Tensor& x_ND, const Branch& branch, const Weight& gain, torch::ScalarType out) const {
  const Branch multiplied{branch.value_ND, branch.bias, branch.bias_is_in, residual_multiplier_};
  const AddedNorm added = learner::add_norm(x_ND, multiplied, gain, heads_.norm_eps, out, device_.kernels);
  return {added.sum_ND, added.normed_ND, {}};
}

Tensor TorchOps::linear(const Linear& linear, const Recomputable& x, bool needs_output) const {
  const LayerAddition beside =
      linear.adapter.empty() ? LayerAddition{} : device_adapter(x.value, linear, numerics().compute);
  if (linear.quantized == nullptr) return device_linear(x.value, linear.weight, {}, needs_output, beside);
  if (!numerics().low_bit())
    return device_linear(x.value, linear.weight, InputRounding{linear.quantized->format, linear.quantized->rotation},
                         needs_output, beside);
  return device_quantized_linear(
      x.value, linear.weight, {device_.weights, linear.name, linear.quantized, numerics().compute, numerics().backward},
      needs_output, beside);
}

Tensor TorchOps::attention(const Tensor& qkv_NC, const QkvWeights& weights) const {
  Qkv qkv = transform(qkv_NC, rows_, heads_, weights, numerics().attention, device_.kernels);
  if (numerics().bitwise && numerics().low_bit() && numerics().kv_format == quant::KvFormat::int8)
    qkv = {qkv.q_NHE, as_in_int8_pages(qkv.k_NKE), as_in_int8_pages(qkv.v_NKE)};
  Heads heads = heads_;
  heads.window = weights.window;
  return packed_attention(qkv, rows_, heads, device_.kernels).reshape({qkv_NC.size(0), -1}).to(numerics().between);
}

Recomputable TorchOps::swiglu(const Tensor& halves_N2F) const {
  return {gated(halves_N2F, gate_, numerics().between, device_.kernels), {}};
}

}  // namespace qrl::learner
