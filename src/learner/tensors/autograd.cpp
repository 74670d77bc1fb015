#include "learner/tensors/autograd.h"

#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <utility>

namespace qrl::learner {

namespace {

class ClosureNode final : public torch::autograd::Node {
 public:
  explicit ClosureNode(Backward backward) : backward_(std::move(backward)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& d_outputs) override {
    return backward_(d_outputs);
  }
  void release_variables() override { backward_ = nullptr; }

 private:
  Backward backward_;
};

bool needs_gradient(const TensorList& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return x.defined() && x.requires_grad(); });
}

TensorList with_values(const TensorList& inputs, const std::vector<Weight>& weights) {
  TensorList all = inputs;
  for (const Weight& weight : weights) all.push_back(weight.value);
  return all;
}

}  // namespace

TensorList differentiable(const TensorList& inputs, const TensorList& outputs, Backward backward) {
  if (!torch::GradMode::is_enabled() || !needs_gradient(inputs)) return outputs;
  const std::shared_ptr<ClosureNode> node(new ClosureNode(std::move(backward)), torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  for (const Tensor& output : outputs) torch::autograd::set_history(output, node);
  return outputs;
}

TensorList checkpointed(const std::function<TensorList(const TensorList&)>& block, const TensorList& inputs,
                        const std::vector<Weight>& weights) {
  TensorList outputs;
  {
    const torch::NoGradGuard no_grad;
    outputs = block(with_values(inputs, weights));
  }
  return recomputed(block, inputs, outputs, weights);
}

TensorList recomputed(const std::function<TensorList(const TensorList&)>& block, const TensorList& inputs,
                      const TensorList& outputs, const std::vector<Weight>& weights) {
  const TensorList all = with_values(inputs, weights);
  return differentiable(inputs, outputs, [block, all, weights, num_inputs = inputs.size()](const TensorList& d) {
    TensorList leaves, known, recompute, d_recomputed;
    {
      const torch::AutoGradMode with_grad(true);
      for (const Tensor& input : all) {
        leaves.push_back(input.defined() ? input.detach().set_requires_grad(true) : input);
        if (input.defined()) known.push_back(leaves.back());
      }
      const TensorList computed = block(leaves);
      for (std::size_t i = 0; i < computed.size(); ++i) {
        if (!d[i].defined()) continue;
        recompute.push_back(computed[i]);
        d_recomputed.push_back(d[i]);
      }
    }
    const TensorList gradients = torch::autograd::grad(recompute, known, d_recomputed);
    TensorList d_inputs(num_inputs);
    std::size_t next = 0;
    for (std::size_t i = 0; i < num_inputs; ++i) {
      if (all[i].defined()) d_inputs[i] = gradients[next++];
    }
    for (const Weight& weight : weights) {
      const Tensor& gradient = gradients[next++];
      if (weight.gradient.defined()) weight.gradient.add_(gradient);
    }
    return d_inputs;
  });
}

}  // namespace qrl::learner
