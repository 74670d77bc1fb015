#include <algorithm>
#include <utility>

#include "base/threads.h"
#include "learner/forward/fused_ops.h"
#include "learner/forward/quantized.h"

namespace qrl::learner {

namespace {

/// Minimum rows per thread in the cheap loops below.
constexpr std::int64_t kRowsAtLeast = 16;

/// Returns settings of the router's matmul, which uses the sampler's op even with fake_quant.
Quantized router_of(const Linear& router, const ForwardNumerics& numerics) {
  return {router.quantized, true, numerics.compute, LearnerBackward::model_dtype};
}
Quantized quantized_of(const Linear& linear, const ForwardNumerics& numerics) {
  return {linear.quantized, numerics.low_bit(), numerics.compute, numerics.backward};
}

std::shared_ptr<const ops::ExpertRows> routes_of(const ops::Router& router, const Tensor& logits_NM, std::int64_t layer,
                                                 RowRoutes& all) {
  const auto routes = std::make_shared<ops::ExpertRows>();
  const std::int64_t num_rows = logits_NM.size(0), chosen = router.per_token;
  routes->experts.resize(static_cast<std::size_t>(num_rows * chosen));
  routes->gates.resize(routes->experts.size());
  std::uint8_t& is_again = all.chosen[static_cast<std::size_t>(layer)];
  const bool has_route = is_again != 0 || !all.given.empty();
  const float* logits = logits_NM.data_ptr<float>();
  base::parallel_for(num_rows, kRowsAtLeast, [&](base::Range range) {
    std::vector<std::uint8_t> own(static_cast<std::size_t>(chosen));
    for (std::int64_t row = range.begin; row < range.end; ++row) {
      const std::int64_t at = all.at(row, layer);
      (void)ops::choose_experts(router, logits + row * router.num_experts, has_route ? all.used().data() + at : nullptr,
                                own.data(), routes->experts.data() + row * chosen, routes->gates.data() + row * chosen);
      if (is_again == 0) std::copy(own.begin(), own.end(), all.own.begin() + at);
    }
  });
  is_again = 1;
  ops::sort_rows(router, *routes);
  return routes;
}

Tensor rows_of(const ops::ExpertRows& routes, std::size_t expert) {
  const std::int32_t first = routes.starts[expert];
  return torch::from_blob(const_cast<std::int32_t*>(routes.row_of.data()) + first, {routes.starts[expert + 1] - first},
                          torch::kInt32);
}

Tensor route_gradient(const ops::Router& router, const Tensor& logits_NM, const ops::ExpertRows& routes,
                      const Tensor& d_gates_NK) {
  const Tensor d_logits_NM = torch::empty_like(logits_NM);
  const std::int64_t count = router.num_experts, chosen = router.per_token;
  base::parallel_for(logits_NM.size(0), kRowsAtLeast, [&](base::Range range) {
    for (std::int64_t row = range.begin; row < range.end; ++row)
      ops::gate_gradients(router, logits_NM.data_ptr<float>() + row * count, routes.experts.data() + row * chosen,
                          routes.gates.data() + row * chosen, d_gates_NK.data_ptr<float>() + row * chosen,
                          d_logits_NM.data_ptr<float>() + row * count);
  });
  return d_logits_NM;
}

/// Returns the router's term of dX in fp32, and adds dYᵀ·x to the router's gradient.
Tensor router_backward(const Linear& router, const ForwardNumerics& numerics, const ops::Activations& input,
                       const Recompute& recompute_x, const Tensor& d_logits_NM) {
  if (router.quantized != nullptr) {
    const Quantized quantized = router_of(router, numerics);
    if (router.weight.gradient.defined())
      add_quantized_weight_gradient(d_logits_NM, input, quantized, router.weight.gradient);
    return quantized_input_gradient(d_logits_NM, quantized);
  }
  const Tensor d_y = d_logits_NM.to(numerics.compute).contiguous();
  accumulate_weight_gradient(d_y, recompute_x(), router.weight.gradient);
  return times(d_y, router.weight.value, torch::kFloat32);
}

/// Adds each expert's fp32 gradient rows to the rows of d_x that were routed to that expert.
void add_rows(const ops::ExpertRows& routes, const TensorList& by_expert, const Tensor& d_x) {
  const std::int64_t width = d_x.size(1);
  base::parallel_for(d_x.size(0), kRowsAtLeast, [&](base::Range range) {
    for (std::int64_t row = range.begin; row < range.end; ++row) {
      float* to = d_x.data_ptr<float>() + row * width;
      for (std::int64_t i = row * routes.per_token; i < (row + 1) * routes.per_token; ++i) {
        const std::size_t pair = static_cast<std::size_t>(i), expert = routes.experts[pair];
        if (!by_expert[expert].defined()) continue;
        const float* from =
            by_expert[expert].data_ptr<float>() + (routes.place_of[pair] - routes.starts[expert]) * width;
        for (std::int64_t at = 0; at < width; ++at) to[at] += from[at];
      }
    }
  });
}

/// Holds an expert's down projection and its input, quantized or recomputable.
struct Second {
  std::size_t expert = 0;
  Linear linear;
  std::shared_ptr<ops::Activations> input;  ///< null if no snapshot is read
  Recompute again;
  torch::ScalarType type = torch::kFloat32;  ///< the input's dtype before quantization
};

/// Returns x · Wᵀ in fp32. Unless needs_output, does not multiply: the result is undefined or uninitialized. With a
/// snapshot, writes X̂ to second.input.
Tensor product(const Second& second, const ForwardNumerics& numerics, const Tensor& x, bool needs_output) {
  if (second.linear.quantized != nullptr)
    return quantized_output(x, quantized_of(second.linear, numerics), *second.input, needs_output);
  return needs_output ? times_transposed(x, second.linear.weight.value, torch::kFloat32) : Tensor();
}

/// Rounds each gate · z to fp32, and adds it to the expert's rows of y. Calls in ascending order of experts give the
/// sampler's bits.
void add_gated(const ops::ExpertRows& routes, const Tensor& gates, std::size_t expert, const Tensor& z,
               const Tensor& y_ND) {
  const std::int64_t width = z.size(1), first = routes.starts[expert];
  base::parallel_for(z.size(0), kRowsAtLeast, [&](base::Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const float gate = gates.data_ptr<float>()[first + i];
      const float* from = z.data_ptr<float>() + i * width;
      float* to = y_ND.data_ptr<float>() + routes.row_of[static_cast<std::size_t>(first + i)] * width;
      for (std::int64_t at = 0; at < width; ++at) to[at] += gate * from[at];
    }
  });
}

Tensor input_gradient(const Second& second, const ForwardNumerics& numerics, const Tensor& d_y) {
  if (second.linear.quantized != nullptr) return quantized_input_gradient(d_y, quantized_of(second.linear, numerics));
  return times(d_y.to(numerics.compute), second.linear.weight.value, torch::kFloat32);
}

Tensor read_input(const Second& second, const ForwardNumerics& numerics) {
  if (second.input == nullptr) return second.again();
  const Tensor rows = dequantized_input(*second.input, numerics.low_bit() ? torch::kFloat32 : numerics.compute);
  if (!second.input->rotation) return rows;
  const Tensor own = rows.to(torch::kFloat32);
  base::parallel_for(own.size(0), kRowsAtLeast, [&](base::Range range) {
    ops::rotate_rows(second.input->rotation, range.size(), own.size(1),
                     own.data_ptr<float>() + range.begin * own.size(1));
  });
  return own;
}

void add_weight_gradient(const Second& second, const ForwardNumerics& numerics, const Tensor& d_y, const Tensor& x) {
  const Tensor& gradient = second.linear.weight.gradient;
  if (!gradient.defined()) return;
  if (second.linear.quantized != nullptr)
    add_quantized_weight_gradient(d_y, *second.input, quantized_of(second.linear, numerics), gradient);
  else accumulate_weight_gradient(d_y.to(numerics.compute).contiguous(), x, gradient);
}

/// Reorders expert-sorted values to [N, k]; gates_by_place does the reverse.
Tensor by_pair(const ops::ExpertRows& routes, const Tensor& by_place) {
  const Tensor places = torch::from_blob(const_cast<std::int32_t*>(routes.place_of.data()),
                                         {static_cast<std::int64_t>(routes.place_of.size())}, torch::kInt32);
  return by_place.index_select(0, places).view({-1, routes.per_token});
}
Tensor gates_by_place(const ops::ExpertRows& routes) {
  const Tensor gates = torch::empty({static_cast<std::int64_t>(routes.gates.size())});
  for (std::size_t pair = 0; pair < routes.gates.size(); ++pair)
    gates.data_ptr<float>()[routes.place_of[pair]] = routes.gates[pair];
  return gates;
}

}  // namespace

EnteredExperts enter_experts(const ops::Router& router, const LayerWeights& layer, const Recomputable& x,
                             const ForwardNumerics& numerics, RowRoutes& all) {
  const Tensor x_ND = x.value.detach();
  const std::int64_t num_rows = x_ND.size(0);
  const auto input = std::make_shared<ops::Activations>();
  Tensor logits_NM;
  if (layer.router.quantized != nullptr) {
    *input = ops::Activations(*layer.router.quantized, num_rows);
    logits_NM = quantized_output(x_ND, router_of(layer.router, numerics), *input);
  } else {
    logits_NM = times_transposed(x_ND, layer.router.weight.value, torch::kFloat32);
  }
  const auto routes = routes_of(router, logits_NM, layer.sparse_idx, all);
  const Tensor gates_NK =
      torch::from_blob(const_cast<float*>(routes->gates.data()), {num_rows, router.per_token}).clone();
  if (!torch::GradMode::is_enabled()) return {routes, gates_NK, x_ND, {}};
  TensorList outputs = {gates_NK};
  std::vector<std::size_t> experts;
  for (std::size_t expert = 0; expert + 1 < routes->starts.size(); ++expert) {
    if (routes->starts[expert] == routes->starts[expert + 1]) continue;
    experts.push_back(expert);
    outputs.push_back(x_ND.index_select(0, rows_of(*routes, expert)));
  }
  Recompute again = x.recompute;
  if (!again) again = [x_ND] { return x_ND; };
  outputs = differentiable(
      {x.value}, outputs,
      [router, linear = layer.router, numerics, input, logits_NM, routes, experts, again,
       type = x_ND.scalar_type()](const TensorList& d) {
        const Tensor d_gates = d[0].defined() ? d[0].contiguous() : torch::zeros({logits_NM.size(0), router.per_token});
        const Tensor d_logits = route_gradient(router, logits_NM, *routes, d_gates);
        const Tensor d_x = router_backward(linear, numerics, *input, again, d_logits);
        TensorList d_rows(routes->starts.size() - 1);
        for (std::size_t i = 0; i < experts.size(); ++i) {
          if (d[i + 1].defined()) d_rows[experts[i]] = d[i + 1].to(torch::kFloat32).contiguous();
        }
        add_rows(*routes, d_rows, d_x);
        return TensorList{d_x.to(type)};
      });
  EnteredExperts entered{routes, outputs[0], {}, TensorList(static_cast<std::size_t>(router.num_experts))};
  for (std::size_t i = 0; i < experts.size(); ++i) entered.rows[experts[i]] = outputs[i + 1];
  return entered;
}

Tensor EnteredExperts::rows_of(std::int64_t expert) const {
  const auto at = static_cast<std::size_t>(expert);
  return rows.empty() ? x_ND.index_select(0, learner::rows_of(*routes, at)) : rows[at];
}

Tensor leave_experts(const LayerWeights& layer, const EnteredExperts& entered, const GatedRows& gated,
                     const ForwardNumerics& numerics, bool needs_output) {
  const auto routes = entered.routes;
  const Tensor gates = gates_by_place(*routes);
  const std::int64_t width = layer.expert_down.quantized.empty() ? layer.expert_down.weight.value.size(1)
                                                                 : layer.expert_down.quantized.front().out;
  const Tensor y_ND = torch::zeros({entered.gates_NK.size(0), width});
  std::vector<Second> seconds;
  TensorList inputs = {entered.gates_NK};
  for (std::size_t expert = 0; expert + 1 < routes->starts.size(); ++expert) {
    if (routes->starts[expert] == routes->starts[expert + 1]) continue;
    const Recomputable a = gated(static_cast<std::int64_t>(expert));
    Second second{expert, layer.expert_down.of(static_cast<std::int64_t>(expert)), {}, {}, a.value.scalar_type()};
    if (second.linear.quantized != nullptr)
      second.input = std::make_shared<ops::Activations>(*second.linear.quantized, a.value.size(0));
    const Tensor z = product(second, numerics, a.value.detach(), needs_output);
    if (needs_output) add_gated(*routes, gates, expert, z, y_ND);
    if (!torch::GradMode::is_enabled()) continue;
    if (second.input == nullptr) second.again = a.recompute;
    seconds.push_back(std::move(second));
    inputs.push_back(a.value);
  }
  return differentiable(inputs, {y_ND}, [routes, gates, seconds, numerics](const TensorList& d) {
    const Tensor d_y = d[0].to(torch::kFloat32).contiguous(), d_gates = torch::zeros_like(gates);
    TensorList d_inputs = {Tensor()};
    for (const Second& second : seconds) {
      const std::int64_t first = routes->starts[second.expert], count = routes->starts[second.expert + 1] - first;
      const Tensor a = read_input(second, numerics);
      const Tensor gate = gates.narrow(0, first, count).unsqueeze(1);
      const Tensor d_rows = d_y.index_select(0, rows_of(*routes, second.expert));
      const Tensor d_gated = input_gradient(second, numerics, d_rows);
      d_gates.narrow(0, first, count).copy_((d_gated * a).sum(1, false, torch::kFloat32));
      add_weight_gradient(second, numerics, d_rows * gate, a);
      d_inputs.push_back((d_gated * gate).to(second.type));
    }
    d_inputs[0] = by_pair(*routes, d_gates);
    return d_inputs;
  })[0];
}

}  // namespace qrl::learner
