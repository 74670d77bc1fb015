#include "learner/device/torch_linear.h"

namespace qrl::learner {

namespace {

Tensor as_f32(const Tensor& x) { return x.to(torch::kFloat32); }

struct Rounding {
  torch::ScalarType format, compute;
  Tensor operator()(const Tensor& values) const { return values.to(format).to(compute); }
};

struct Operands {
  Operands(const LinearAdapter& adapter, const Rounding& rounded) : a(rounded(adapter.a.value)) {
    for (const LinearAdapter::Part& part : adapter.parts) b.push_back(rounded(part.b.value.mul(adapter.scale)));
  }
  Tensor a;      ///< the parts' A, stacked: [parts · rank, in]
  TensorList b;  ///< scale·B of each part, [out, rank]
};

Tensor of_part(const Tensor& products, std::size_t part, std::int64_t rank) {
  return products.narrow(1, static_cast<std::int64_t>(part) * rank, rank);
}

/// Accumulates the gradients of A and B. d_y, x and products (A·x) have the matmuls' dtype. Returns the adapter's part
/// of dX. The part is in that dtype if `narrow` is set, otherwise in fp32.
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

Tensor exact_matmul(const Tensor& x, const Tensor& y) {
  if (x.scalar_type() == torch::kFloat32) return torch::mm(x, y);
  if (!x.is_cpu()) return at::mm(x, y, torch::kFloat32);
  return torch::mm(as_f32(x), as_f32(y));
}

void add_exact_matmul(const Tensor& x, const Tensor& y, Tensor sum) {
  if (!x.is_cpu() && x.scalar_type() != torch::kFloat32) {
    at::addmm_out(sum, sum, x, y, torch::kFloat32);
  } else {
    sum.addmm_(as_f32(x), as_f32(y));
  }
}

void add_matmul(const Tensor& x, const Tensor& y, const Tensor& sum) {
  if (sum.scalar_type() == torch::kFloat32) return add_exact_matmul(x, y, sum);
  if (!sum.is_cpu()) sum.addmm_(x, y);
  else sum.add_(exact_matmul(x, y));  // LibTorch adds in fp32, then rounds
}

Tensor rounded_activations(const Tensor& x, quant::Format format) {
  const quant::FormatSpec& what = quant::spec(format);
  if (what.activations == quant::Element::f32) return x;
  if (what.activations == quant::Element::bf16) return as_f32(x.to(torch::kBFloat16));
  const std::int64_t width = x.size(1),
                     segment = what.activation_scale_inputs == 0 ? width : what.activation_scale_inputs;
  const Tensor padded = torch::constant_pad_nd(x, {0, (segment - width % segment) % segment});
  const Tensor segments = padded.view({x.size(0), -1, segment});
  const Tensor scale = segments.abs().amax(-1, true) / static_cast<double>(quant::max_magnitude(what.activations));
  Tensor ratio = (segments / scale).masked_fill(scale == 0, 0);
  if (what.activations == quant::Element::int8) {
    ratio = ratio.round().clamp(-127, 127);
  } else {
    ratio = as_f32(ratio.clamp(-448, 448).to(torch::kFloat8_e4m3fn));
  }
  return (ratio * scale).view({x.size(0), -1}).narrow(1, 0, width);
}

Tensor rotated_rows(const Tensor& x, const quant::Rotation& rotation) {
  if (!rotation) return x;
  Tensor rows = x;
  for (std::int64_t step = 1; step < rotation.block; step *= 2) {
    const std::vector<Tensor> halves = rows.reshape({-1, 2, step}).unbind(1);
    rows = torch::stack({halves[0] + halves[1], halves[0] - halves[1]}, 1);
  }
  return rows.reshape(x.sizes()) * static_cast<double>(quant::scale_of(rotation));
}

Tensor device_linear(const Tensor& x, const Weight& weight, const std::optional<InputRounding>& rounding,
                     bool needs_output, const LayerAddition& beside) {
  const torch::ScalarType type = weight.value.scalar_type();
  const auto rounded = [&](const Tensor& rows) {
    const quant::Rotation& rotation = rounding->rotation;
    return rotated_rows(rounded_activations(rotated_rows(rows, rotation), rounding->format), rotation).to(type);
  };
  const Tensor read_x = rounding ? rounded(x.detach()) : x.detach();
  const auto y_options = read_x.options().dtype(rounding ? torch::kFloat32 : type);
  const Tensor y = !needs_output ? torch::empty({x.size(0), weight.value.size(0)}, y_options)
                   : rounding    ? exact_matmul(read_x, weight.value.t())
                                 : torch::mm(read_x, weight.value.t());
  if (beside.add_to_output && needs_output) beside.add_to_output(y);
  const Tensor kept_x = weight.gradient.defined() ? read_x : Tensor();
  return differentiable(
      {x}, {y},
      [kept_x, weight, type, is_rounded = rounding.has_value(), more = beside.input_gradient](const TensorList& d) {
        const Tensor d_y = d[0].to(type);
        if (kept_x.defined()) add_exact_matmul(d_y.t(), kept_x, weight.gradient);
        if (!more) return TensorList{is_rounded ? exact_matmul(d_y, weight.value) : torch::mm(d_y, weight.value)};
        const Tensor d_x = more(d_y);
        add_matmul(d_y, weight.value, d_x);
        return TensorList{d_x};
      })[0];
}

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
