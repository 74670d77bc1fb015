#include "learner/device/device_adapter.h"

namespace qrl::learner {

namespace {

struct Rounding {
  torch::ScalarType format, compute;
  Tensor operator()(const Tensor& values) const { return values.to(format).to(compute); }
};

struct Operands {
  Operands(const LinearAdapter& adapter, const Rounding& rounded) : a(rounded(adapter.a.value)) {
    for (const LinearAdapter::Part& part : adapter.parts) b.push_back(rounded(part.b.value.mul(adapter.scale)));
  }
  Tensor a;      ///< [parts · rank, in]
  TensorList b;  ///< [out, rank] each
};

Tensor of_part(const Tensor& products, std::size_t part, std::int64_t rank) {
  return products.narrow(1, static_cast<std::int64_t>(part) * rank, rank);
}

/// Adds the adapter's gradients and returns its part of dX, in fp32 unless `narrow`. d_y, x and products have the
/// matmuls' dtype.
Tensor add_gradients(const LinearAdapter& adapter, const Operands& with, const Tensor& d_y, const Tensor& x,
                     const Tensor& products, bool narrow) {
  const Tensor u = torch::empty({d_y.size(0), with.a.size(0)}, d_y.options());
  for (std::size_t i = 0; i < adapter.parts.size(); ++i) {
    const LinearAdapter::Part& part = adapter.parts[i];
    const Tensor of_outputs = d_y.narrow(1, part.first_output, with.b[i].size(0));
    of_part(u, i, adapter.rank()).copy_(torch::mm(of_outputs, with.b[i]));
    Tensor gradient = part.b.gradient;
    gradient.add_(exact_matmul(of_outputs.t(), of_part(products, i, adapter.rank())), adapter.scale);
  }
  add_exact_matmul(u.t(), x, adapter.a.gradient);
  return narrow ? torch::mm(u, with.a) : exact_matmul(u, with.a);
}

}  // namespace

LayerAddition device_adapter(const Tensor& x, const Linear& linear, torch::ScalarType compute) {
  const LinearAdapter adapter = linear.adapter;
  const Rounding rounded{linear.quantized != nullptr ? torch::kBFloat16 : x.scalar_type(), compute};
  const Operands operands(adapter, rounded);
  const Tensor kept_x = x.detach().to(rounded.format);
  const Tensor products = torch::mm(kept_x.to(compute), operands.a.t()).to(rounded.format);
  const bool narrow = x.scalar_type() != torch::kFloat32;
  return {[=](const Tensor& y) {
            for (std::size_t i = 0; i < adapter.parts.size(); ++i) {
              add_matmul(of_part(products, i, adapter.rank()).to(compute), operands.b[i].t(),
                         y.narrow(1, adapter.parts[i].first_output, operands.b[i].size(0)));
            }
          },
          [=](const Tensor& d_y) {
            return add_gradients(adapter, Operands(adapter, rounded), d_y.to(rounded.compute),
                                 kept_x.to(rounded.compute), products.to(rounded.compute), narrow);
          }};
}

}  // namespace qrl::learner
