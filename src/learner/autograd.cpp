#include "learner/autograd.h"

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

}  // namespace

TensorList differentiable(const TensorList& inputs, const TensorList& outputs, Backward backward) {
  if (!torch::GradMode::is_enabled() || !needs_gradient(inputs)) return outputs;
  const std::shared_ptr<ClosureNode> node(new ClosureNode(std::move(backward)), torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  for (const Tensor& output : outputs) torch::autograd::set_history(output, node);
  return outputs;
}

TensorList checkpointed(const std::function<TensorList(const TensorList&)>& block, const TensorList& inputs) {
  TensorList outputs;
  {
    const torch::NoGradGuard no_grad;
    outputs = block(inputs);
  }
  return differentiable(inputs, outputs, [block, inputs](const TensorList& d_outputs) {
    const torch::AutoGradMode with_grad(true);
    TensorList leaves, known;
    for (const Tensor& input : inputs) {
      leaves.push_back(input.defined() ? input.detach().set_requires_grad(true) : input);
      if (input.defined()) known.push_back(leaves.back());
    }
    const TensorList gradients = torch::autograd::grad(block(leaves), known, d_outputs);
    TensorList d_inputs(inputs.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].defined()) d_inputs[i] = gradients[next++];
    }
    return d_inputs;
  });
}

}  // namespace qrl::learner
