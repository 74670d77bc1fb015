#include "learner/device/device_kernels.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "learner/device/device_quantized.h"

namespace qrl::learner {

HostRowLists row_lists(std::vector<std::int32_t> rows, std::int64_t num_rows) {
  HostRowLists lists;
  lists.starts.assign(static_cast<std::size_t>(num_rows) + 1, 0);
  for (const std::int32_t row : rows) ++lists.starts[static_cast<std::size_t>(row) + 1];
  std::partial_sum(lists.starts.begin(), lists.starts.end(), lists.starts.begin());
  lists.places.resize(rows.size());
  std::vector<std::int32_t> next(lists.starts.begin(), lists.starts.end() - 1);
  for (std::size_t place = 0; place < rows.size(); ++place)
    lists.places[static_cast<std::size_t>(next[static_cast<std::size_t>(rows[place])]++)] =
        static_cast<std::int32_t>(place);
  lists.rows = std::move(rows);
  return lists;
}

HostTokenLists token_lists(const std::vector<std::int32_t>& tokens) {
  HostTokenLists lists;
  lists.rows.resize(tokens.size());
  std::iota(lists.rows.begin(), lists.rows.end(), 0);
  const auto token_of = [&](std::int32_t row) { return tokens[static_cast<std::size_t>(row)]; };
  std::ranges::stable_sort(lists.rows, {}, token_of);
  for (std::size_t i = 0; i < lists.rows.size(); ++i) {
    const std::int32_t token = token_of(lists.rows[i]);
    if (!lists.distinct.empty() && lists.distinct.back() == token) continue;
    lists.distinct.push_back(token);
    lists.starts.push_back(static_cast<std::int32_t>(i));
  }
  lists.starts.push_back(static_cast<std::int32_t>(tokens.size()));
  return lists;
}

namespace {

cuda::CallersStream callers_stream(const Tensor& x) { return {stream_on(x.device())}; }

cuda::ReadRows read_rows(const Tensor& x) {
  TORCH_INTERNAL_ASSERT(x.stride(-1) == 1);
  return {x.data_ptr(), x.stride(0), x.scalar_type() == torch::kFloat32};
}
cuda::WrittenRows written_rows(const Tensor& x) {
  return {x.data_ptr(), x.stride(0), x.scalar_type() == torch::kFloat32};
}
const float* floats_or_null(const Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; }
float* writable_or_null(const Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; }

Tensor dense_or_zeros(const Tensor& gradient, at::IntArrayRef sizes, const torch::TensorOptions& options) {
  return gradient.defined() ? gradient.contiguous() : torch::zeros(sizes, options);
}

cuda::HeadTransform transform_of(std::int64_t num_rows, const Tensor& angles_NE, const Heads& heads,
                                 const QkvWeights& weights) {
  return {num_rows,
          heads.num_heads,
          heads.num_kv_heads,
          heads.head_dim,
          floats_or_null(weights.bias.value),
          floats_or_null(weights.q_gain.value),
          floats_or_null(weights.k_gain.value),
          heads.norm_eps,
          angles_NE.data_ptr<float>()};
}

cuda::ScoreTask score_task(const LogitRows& rows, const ScoredRows& scored) {
  static_assert(sizeof(cuda::RowSums) == 2 * sizeof(float));
  TORCH_INTERNAL_ASSERT(rows.logits_MV.is_contiguous() && rows.targets_M.is_contiguous());
  return {rows.logits_MV.data_ptr<float>(),
          rows.logits_MV.size(0),
          rows.logits_MV.size(1),
          rows.targets_M.data_ptr<std::int64_t>(),
          rows.temperature,
          scored.log_probs_M.data_ptr<float>(),
          scored.entropies_M.data_ptr<float>(),
          reinterpret_cast<cuda::RowSums*>(scored.sums_M2.data_ptr<float>())};
}

}  // namespace

AddedNorm fused_add_norm(const cuda::TrainingKernels& kernels, const Tensor& x_ND, const Branch& branch,
                         const Weight& gain, float eps, torch::ScalarType out) {
  const bool has_branch = branch.value_ND.defined(), has_bias = has_branch && branch.bias.defined();
  const Tensor x = x_ND.detach(), added = has_branch ? branch.value_ND.detach() : Tensor();
  const std::int64_t num_rows = x.size(0), width = x.size(1);
  const auto f32 = x.options().dtype(torch::kFloat32);
  const Tensor sum_ND = has_branch ? torch::empty({num_rows, width}, f32) : x;
  const Tensor normed_ND = torch::empty({num_rows, width}, x.options().dtype(out));
  const Tensor inverse_rms_N = torch::empty({num_rows}, f32);
  kernels.add_norm({read_rows(x), has_branch ? read_rows(added) : cuda::ReadRows{},
                    has_bias ? branch.bias.value.data_ptr<float>() : nullptr, gain.value.data_ptr<float>(), eps,
                    has_branch ? written_rows(sum_ND) : cuda::WrittenRows{}, written_rows(normed_ND),
                    inverse_rms_N.data_ptr<float>(), num_rows, width},
                   callers_stream(x));
  const auto backward = [&kernels, num_rows, width, kept = sum_ND.detach(), inverse_rms_N, gain, bias = branch.bias,
                         has_branch, has_bias, f32, of_normed = normed_ND.options(),
                         of_branch = has_branch ? added.scalar_type() : torch::kFloat32](const TensorList& d) {
    const Tensor d_normed = dense_or_zeros(d.back(), kept.sizes(), of_normed);
    const Tensor d_sum = has_branch && d[0].defined() ? d[0].contiguous() : Tensor();
    const Tensor d_x = torch::empty({num_rows, width}, f32);
    const bool rounds = of_branch != torch::kFloat32;
    const Tensor d_branch = rounds ? torch::empty({num_rows, width}, f32.dtype(of_branch)) : d_x;
    const Tensor scratch = torch::empty({kernels.add_norm_scratch_floats(num_rows, width, has_bias)}, f32);
    kernels.add_norm_gradient(
        {read_rows(kept), gain.value.data_ptr<float>(), inverse_rms_N.data_ptr<float>(), read_rows(d_normed),
         d_sum.defined() ? read_rows(d_sum) : cuda::ReadRows{}, written_rows(d_x),
         rounds ? written_rows(d_branch) : cuda::WrittenRows{}, writable_or_null(gain.gradient),
         has_bias ? writable_or_null(bias.gradient) : nullptr, scratch.data_ptr<float>(), num_rows, width},
        callers_stream(kept));
    return has_branch ? TensorList{d_x, d_branch} : TensorList{d_x};
  };
  if (!has_branch) return {x_ND, differentiable({x_ND}, {normed_ND}, backward)[0]};
  const TensorList results = differentiable({x_ND, branch.value_ND}, {sum_ND, normed_ND}, backward);
  return {results[0], results[1]};
}

Tensor fused_swiglu(const cuda::TrainingKernels& kernels, const Tensor& halves_N2F, torch::ScalarType out) {
  const Tensor kept = halves_N2F.detach();
  const std::int64_t num_rows = kept.size(0), width = kept.size(1) / 2;
  const Tensor gated_NF = torch::empty({num_rows, width}, kept.options().dtype(out));
  kernels.swiglu({read_rows(kept), written_rows(gated_NF), num_rows, width}, callers_stream(kept));
  return differentiable({halves_N2F}, {gated_NF}, [&kernels, kept, num_rows, width](const TensorList& d) {
    const Tensor d_gated_NF = d[0].contiguous(), d_halves = torch::empty({num_rows, 2 * width}, kept.options());
    kernels.swiglu_gradient({read_rows(kept), read_rows(d_gated_NF), written_rows(d_halves), num_rows, width},
                            callers_stream(kept));
    return TensorList{d_halves};
  })[0];
}

TensorList fused_qkv(const cuda::TrainingKernels& kernels, const Tensor& qkv_NC, const Tensor& angles_NE,
                     const Heads& heads, const QkvWeights& weights, torch::ScalarType out) {
  const Tensor entering = qkv_NC.detach();
  const std::int64_t num_rows = entering.size(0);
  const auto heads_of = [num_rows, &heads](std::int64_t count) {
    return std::vector<std::int64_t>{num_rows, count, heads.head_dim};
  };
  const auto options = entering.options().dtype(out);
  const TensorList parts = {torch::empty(heads_of(heads.num_heads), options),
                            torch::empty(heads_of(heads.num_kv_heads), options),
                            torch::empty(heads_of(heads.num_kv_heads), options)};
  kernels.transform_heads({transform_of(num_rows, angles_NE, heads, weights), read_rows(entering),
                           written_rows(parts[0]), written_rows(parts[1]), written_rows(parts[2])},
                          callers_stream(entering));
  const Tensor kept = weights.q_gain.defined() ? entering : Tensor();
  const auto backward = [&kernels, kept, angles_NE, heads, weights, options, into = entering.options(), num_rows,
                         width = entering.size(1)](const TensorList& d) {
    const cuda::HeadTransform transform = transform_of(num_rows, angles_NE, heads, weights);
    const auto gradient = [&](std::size_t part, std::int64_t count) {
      return dense_or_zeros(d[part], {num_rows, count, heads.head_dim}, options);
    };
    const Tensor d_q = gradient(0, heads.num_heads), d_k = gradient(1, heads.num_kv_heads),
                 d_v = gradient(2, heads.num_kv_heads), d_qkv = torch::empty({num_rows, width}, into);
    const Tensor scratch = torch::empty({kernels.heads_scratch_floats(transform)}, into.dtype(torch::kFloat32));
    kernels.transform_heads_gradient(
        {transform, kept.defined() ? read_rows(kept) : cuda::ReadRows{}, read_rows(d_q), read_rows(d_k), read_rows(d_v),
         written_rows(d_qkv), writable_or_null(weights.bias.gradient), writable_or_null(weights.q_gain.gradient),
         writable_or_null(weights.k_gain.gradient), scratch.data_ptr<float>()},
        callers_stream(d_qkv));
    return TensorList{d_qkv};
  };
  return differentiable({qkv_NC}, parts, backward);
}

namespace {

cuda::RowListsTask lists_task(const Tensor& from, const Tensor& to, std::int64_t num_lists) {
  cuda::RowListsTask task;
  task.from[0] = read_rows(from);
  task.to[0] = written_rows(to);
  task.num_lists = num_lists;
  task.width = from.size(1);
  return task;
}
const std::int32_t* ints(const Tensor& x) { return x.data_ptr<std::int32_t>(); }

}  // namespace

Tensor fused_embed(const cuda::TrainingKernels& kernels, const TokenLists& tokens, const Weight& table_VD,
                   torch::ScalarType compute) {
  const Tensor& table = table_VD.value;
  const auto f32 = table.options().dtype(torch::kFloat32);
  const Tensor leaf = torch::empty({0}, f32).set_requires_grad(true);
  const std::int64_t num_rows = tokens.tokens_N.size(0);
  Tensor x_ND = torch::empty({num_rows, table.size(1)}, f32);
  cuda::RowListsTask task = lists_task(table, x_ND, num_rows);
  task.rows = ints(tokens.tokens_N);
  kernels.sum_rows(task, callers_stream(table));
  if (table.scalar_type() != compute) x_ND = x_ND.to(compute).to(torch::kFloat32);
  return differentiable({leaf}, {x_ND}, [&kernels, tokens, gradient = table_VD.gradient](const TensorList& d) {
    if (!gradient.defined()) return TensorList(1);
    const Tensor d_ND = d[0].contiguous();
    cuda::RowListsTask sums = lists_task(d_ND, gradient, tokens.distinct.size(0));
    sums.starts = ints(tokens.starts);
    sums.rows = ints(tokens.rows_N);
    sums.to_rows = ints(tokens.distinct);
    sums.adds = true;
    kernels.sum_rows(sums, callers_stream(d_ND));
    return TensorList(1);
  })[0];
}

TensorList fused_gather(const cuda::TrainingKernels& kernels, const RowLists& places, const Tensor& k_NKE,
                        const Tensor& v_NKE) {
  const std::int64_t num_keys = places.rows.size(0), num_rows = k_NKE.size(0), num_heads = k_NKE.size(1),
                     head_dim = k_NKE.size(2);
  const auto pair_task = [width = num_heads * head_dim](const TensorList& from, const TensorList& to) {
    const auto rows_of = [width](const Tensor& x) { return x.view({-1, width}); };
    cuda::RowListsTask task = lists_task(rows_of(from[0]), rows_of(to[0]), to[0].size(0));
    task.from[1] = read_rows(rows_of(from[1]));
    task.to[1] = written_rows(rows_of(to[1]));
    return task;
  };
  const auto made = [=, options = k_NKE.options()](std::int64_t count) {
    const auto one = [&] { return torch::empty({count, num_heads, head_dim}, options); };
    return TensorList{one(), one()};
  };
  const TensorList gathered = made(num_keys);
  cuda::RowListsTask task = pair_task({k_NKE.detach(), v_NKE.detach()}, gathered);
  task.rows = ints(places.rows);
  kernels.sum_rows(task, callers_stream(k_NKE));
  return differentiable({k_NKE, v_NKE}, gathered, [=, &kernels, options = k_NKE.options()](const TensorList& d) {
    const auto of = [&](const Tensor& x) { return dense_or_zeros(x, {num_keys, num_heads, head_dim}, options); };
    const TensorList summed = made(num_rows), dense = {of(d[0]), of(d[1])};
    cuda::RowListsTask sums = pair_task(dense, summed);
    sums.starts = ints(places.starts);
    sums.rows = ints(places.places);
    kernels.sum_rows(sums, callers_stream(summed[0]));
    return summed;
  });
}

Tensor gathered_rows(const cuda::TrainingKernels& kernels, const RowLists& lists, const Tensor& x_ND) {
  const std::int64_t count = lists.rows.size(0);
  const Tensor x_TD = torch::empty({count, x_ND.size(1)}, x_ND.options());
  cuda::RowListsTask task = lists_task(x_ND, x_TD, count);
  task.rows = ints(lists.rows);
  kernels.sum_rows(task, callers_stream(x_ND));
  return x_TD;
}

Tensor summed_rows(const cuda::TrainingKernels& kernels, const RowLists& lists, const Tensor& x_TD) {
  const std::int64_t count = lists.starts.size(0) - 1;
  const Tensor x_ND = torch::empty({count, x_TD.size(1)}, x_TD.options());
  cuda::RowListsTask task = lists_task(x_TD, x_ND, count);
  task.starts = ints(lists.starts);
  task.rows = ints(lists.places);
  kernels.sum_rows(task, callers_stream(x_TD));
  return x_ND;
}

ScoredRows::ScoredRows(std::int64_t count, const torch::Device& device) {
  const auto there = torch::TensorOptions().dtype(torch::kFloat32).device(device);
  scores_2M = torch::empty({2, count}, there);
  log_probs_M = scores_2M.select(0, 0);
  entropies_M = scores_2M.select(0, 1);
  sums_M2 = torch::empty({count, 2}, there);
}

ScoredRows ScoredRows::narrow(std::int64_t begin, std::int64_t count) const {
  ScoredRows part;
  part.log_probs_M = log_probs_M.narrow(0, begin, count);
  part.entropies_M = entropies_M.narrow(0, begin, count);
  part.sums_M2 = sums_M2.narrow(0, begin, count);
  return part;
}

void fused_scores(const cuda::TrainingKernels& kernels, const LogitRows& rows, const ScoredRows& to) {
  const Tensor& logits_MV = rows.logits_MV;
  cuda::ScoreTask task = score_task(rows, to);
  const Tensor scratch =
      torch::empty({kernels.score_scratch_floats(task.num_rows, task.vocab_size)}, logits_MV.options());
  task.scratch = scratch.data_ptr<float>();
  kernels.score(task, callers_stream(logits_MV));
}

Tensor fused_score_gradient(const cuda::TrainingKernels& kernels, const LogitRows& rows, const ScoredRows& scored,
                            const Tensor& d_log_probs_M, const Tensor& d_entropies_M, torch::ScalarType out) {
  const bool is_f32 = out == torch::kFloat32;
  TORCH_INTERNAL_ASSERT(d_log_probs_M.is_contiguous() && (!d_entropies_M.defined() || d_entropies_M.is_contiguous()));
  const Tensor d_logits_MV =
      is_f32 ? rows.logits_MV : torch::empty(rows.logits_MV.sizes(), rows.logits_MV.options().dtype(out));
  kernels.score_gradient({score_task(rows, scored), d_log_probs_M.data_ptr<float>(), floats_or_null(d_entropies_M),
                          d_logits_MV.data_ptr(), is_f32},
                         callers_stream(rows.logits_MV));
  return d_logits_MV;
}

}  // namespace qrl::learner
